import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from './schema/own-schema.js';

const MAX_AHEAD = '1 day';

/** For `skipStale`: the newest time that a handler has seen of a key. */
@Injectable()
export class WatermarkStore {
  /**
   * Raises the mark to `at`, in the handler's own transaction, so that it is rolled back with it. Concurrent runs of one key wait here.
   * @returns `newest`: run (equal times run too). `stale`: a newer event was handled. `future`: the time is more than a day in the future
   * by the database's clock. Such an event runs without moving the mark, or every later event would be stale
   */
  async raise(
    manager: EntityManager,
    mark: {
      readonly handler: string;
      readonly source: string;
      readonly tenant: string;
      readonly key: string;
    },
    at: Date,
  ): Promise<'newest' | 'stale' | 'future'> {
    const [row]: { future: boolean; raised: boolean }[] = await query(manager, RAISE, [
      mark.handler,
      mark.source,
      mark.tenant,
      mark.key,
      at,
    ]);
    if (row!.future) return 'future';
    return row!.raised ? 'newest' : 'stale';
  }
}

const RAISE = `
  WITH mark AS (
    INSERT INTO webhook_watermark AS w (handler, source, tenant, key_sha256, at)
    SELECT $1, $2, $3, sha256(convert_to($4, 'UTF8')), $5::timestamptz WHERE $5::timestamptz <= clock_timestamp() + interval '${MAX_AHEAD}'
        ON CONFLICT (handler, source, tenant, key_sha256) DO UPDATE SET at = EXCLUDED.at WHERE w.at <= EXCLUDED.at
    RETURNING 1
  )
  SELECT EXISTS (SELECT FROM mark) AS raised,
         $5::timestamptz > clock_timestamp() + interval '${MAX_AHEAD}' AS future`;
