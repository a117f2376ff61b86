import { chown, copyFile, lchown, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';

/** What PostgreSQL says that a backup leaves out: the standby gets its log from the primary, and the rest is made at each start. */
const LEFT_EMPTY = new Set([
  'pg_wal',
  'pg_replslot',
  'pg_dynshmem',
  'pg_notify',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
]);
const LEFT_OUT =
  /^(?:postmaster\.(?:pid|opts)|pgsql_tmp.*|pg_internal\.init.*|standby\.signal|backup_label.*)$/;

/**
 * Copies the data of a server that goes on meanwhile, for a standby of it: the package has no pg_basebackup.
 * @see https://www.postgresql.org/docs/18/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP
 */
export async function copyForStandby(url: string, from: string, to: string): Promise<void> {
  // One connection: the backup ends with it.
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`SELECT pg_backup_start('standby', fast => true)`);
    const { uid, gid } = await stat(from);
    await copy(from, to, async (path) => lchown(path, uid, gid));
    await mkdir(join(to, 'pg_wal', 'archive_status'), { mode: 0o700 });
    const { rows } = await client.query<{ labelfile: string }>(
      `SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)`,
    );
    await writeFile(join(to, 'backup_label'), rows[0]!.labelfile);
    await writeFile(join(to, 'standby.signal'), '');
    for (const name of ['pg_wal/archive_status', 'backup_label', 'standby.signal'])
      await chown(join(to, name), uid, gid);
  } finally {
    await client.end();
  }
}

async function copy(from: string, to: string, own: (path: string) => Promise<void>): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  await own(to);
  const entries = await readdir(from, { withFileTypes: true });
  const copies = entries
    .filter(({ name }) => !LEFT_OUT.test(name))
    .map(async (entry) => {
      const target = join(to, entry.name);
      if (entry.isDirectory() && LEFT_EMPTY.has(entry.name)) {
        await mkdir(target, { mode: 0o700 });
        await own(target);
      } else if (entry.isDirectory()) await copy(join(from, entry.name), target, own);
      else if (entry.isFile() && (await copied(join(from, entry.name), target))) await own(target);
    });
  await Promise.all(copies);
}

/** False when the file has gone meanwhile; the log tells the standby so. */
async function copied(source: string, target: string): Promise<boolean> {
  try {
    await copyFile(source, target);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
