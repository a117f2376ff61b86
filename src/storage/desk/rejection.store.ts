import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import { Parameters, conditionsOf, textHas, textIs, type ListFilter } from './filter.sql.js';

/** A request that was not believed, explained. Bytes and values of headers only where the application asked to keep them. */
export interface Rejected {
  readonly id: string;
  readonly at: Date;
  readonly source: string;
  readonly reason: string;
  readonly detail: string;
  /** The most likely fault, as a short code. */
  readonly diagnosis: string;
  /** The same in a sentence, with what to do. */
  readonly explanation: string;
  readonly bytes: number;
  readonly contentType: string;
  readonly headerNames: readonly string[];
  readonly method: string;
}
export interface KeptRequest {
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}
/** A rejected request, as the list shows it. */
export interface ListedRejection extends Rejected {
  /** Bytes and signature are there, so that it can be verified again. */
  readonly kept: boolean;
  readonly takenAt: Date | null;
  readonly takenAs: string | null;
}

@Injectable()
export class RejectionStore {
  async add(manager: EntityManager, rejected: Rejected, kept: KeptRequest | undefined): Promise<void> {
    await query(manager, ADD, [
      rejected.id,
      rejected.at,
      rejected.source,
      rejected.reason,
      rejected.detail,
      rejected.diagnosis,
      rejected.explanation,
      rejected.bytes,
      rejected.contentType,
      rejected.headerNames,
      rejected.method,
      kept?.url ?? null,
      kept === undefined ? null : JSON.stringify(kept.headers),
      kept?.body ?? null,
    ]);
  }

  /** Those that match, newest first, from before the row `before`. */
  async list(
    manager: EntityManager,
    filter: ListFilter,
    limit: number,
    before?: string,
  ): Promise<ListedRejection[]> {
    const p = new Parameters();
    const where = conditionsOf(filter, COLUMNS, { time: 'r.at', source: 'r.source' }, p).join(' AND ');
    return query(
      manager,
      `${LIST} WHERE r.id < ${p.add(before ?? LAST_ID)}::uuid AND ${where} ORDER BY r.id DESC LIMIT ${p.add(limit)}`,
      p.values,
    );
  }

  /** Requests of a source that were kept and not taken in since, oldest first, from after the row `after`. */
  async kept(
    manager: EntityManager,
    source: string,
    limit: number,
    after?: string,
  ): Promise<({ readonly id: string; readonly at: Date; readonly method: string } & KeptRequest)[]> {
    return query(manager, KEPT, [source, limit, after ?? FIRST_ID]);
  }

  /** Notes that a kept request was verified after all; its bytes are in the claim from now on. */
  async taken(manager: EntityManager, id: string, as: string): Promise<void> {
    await query(
      manager,
      `UPDATE webhook_rejection SET taken_at = now(), taken_as = $2, body = NULL, headers = NULL, url = NULL WHERE id = $1`,
      [id, as],
    );
  }

  /** Drops bytes after `keepMs` milliseconds and all but the newest `maxBytes` of them, rows after a week and all but the newest `max`. */
  async prune(manager: EntityManager, keepMs: number, max: number, maxBytes: number): Promise<void> {
    await query(
      manager,
      `UPDATE webhook_rejection SET body = NULL, headers = NULL, url = NULL
        WHERE body IS NOT NULL AND at < now() - $1 * interval '1 ms'`,
      [keepMs],
    );
    await query(manager, DROP_BYTES, [maxBytes]);
    await query(manager, `DELETE FROM webhook_rejection WHERE at < now() - interval '7 days'`);
    await query(
      manager,
      `DELETE FROM webhook_rejection WHERE id <= (SELECT id FROM webhook_rejection ORDER BY id DESC OFFSET $1 LIMIT 1)`,
      [max],
    );
  }
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const ADD = `
  INSERT INTO webhook_rejection (id, at, source, reason, detail, diagnosis, explanation, bytes, content_type, header_names,
                                 method, url, headers, body)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`;

const COLUMNS = {
  source: textIs('r.source'),
  reason: textIs('r.reason'),
  error: textHas(`(r.diagnosis || ' ' || r.detail || ' ' || r.explanation)`),
};

const LIST = `
  SELECT r.id, r.at, r.source, r.reason, r.detail, r.diagnosis, r.explanation, r.bytes, r.content_type AS "contentType",
         r.header_names AS "headerNames", r.method, r.body IS NOT NULL AS kept, r.taken_at AS "takenAt", r.taken_as AS "takenAs"
    FROM webhook_rejection r`;

const KEPT = `
  SELECT id, at, method, url, headers, body FROM webhook_rejection
   WHERE source = $1 AND body IS NOT NULL AND taken_at IS NULL AND id > $3
   ORDER BY id LIMIT $2`;

const DROP_BYTES = `
  UPDATE webhook_rejection SET body = NULL, headers = NULL, url = NULL
   WHERE id IN (SELECT id FROM (SELECT id, sum(octet_length(body)) OVER (ORDER BY id DESC) AS total
                                  FROM webhook_rejection WHERE body IS NOT NULL) newest
                 WHERE total > $1)`;
