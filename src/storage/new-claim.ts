import { storable, type EventKey } from '../core/event.js';
import { CLAIM, CLAIM_ONE, CLAIM_SIGNED, withSearchValues } from './claim.sql.js';
import type { OrderKey } from './turn.store.js';

/** An event about to be claimed, with the handler rows owed for it. */
export interface NewClaim extends EventKey {
  readonly id: string;
  readonly type: string;
  readonly occurredAt?: Date;
  readonly origin: 'delivery' | 'backfill';
  readonly verifiedBy: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Set when the id is not covered by the signature: known bytes under a new id may be a replay. */
  readonly bodySha256?: Buffer;
  /** Drop it when its bytes are known under another id. */
  readonly refuseKnownBytes?: boolean;
  readonly rows: readonly NewHandlerRow[];
  /** By what people find it. */
  readonly searchValues?: readonly SearchValue[];
}
/** A value at a path of a payload, at most 255 bytes. */
export interface SearchValue {
  readonly path: string;
  readonly value: string;
}
export interface NewHandlerRow {
  readonly id: string;
  readonly name: string;
  readonly orderKey?: OrderKey;
  /** Lease the new row to this process at once, as its first attempt, instead of leaving it to a relay. */
  readonly lease?: { readonly owner: string; readonly ms: number };
  /** Why the event's own id cannot be used: the row is dead from the start. */
  readonly unusable?: string;
  /** In which the delivery came. */
  readonly trace?: string;
}

/** Longest error of a row, in bytes. */
const MAX_ERROR = 1_000;

/** The statement for these claims, and its values. */
export function claiming(claims: readonly NewClaim[]): [string, unknown[]] {
  const [claim] = claims;
  const [row] = claim?.rows ?? [];
  const areSigned = claims.every(({ bodySha256 }) => bodySha256 === undefined);
  const many = areSigned ? CLAIM_SIGNED : CLAIM;
  const found = claims.flatMap(({ id, searchValues = [] }) => searchValues.map((one) => ({ ...one, id })));
  if (found.length > 0)
    return [
      withSearchValues(many),
      [
        ...manyClaims(claims),
        found.map((one) => one.id),
        found.map((one) => one.path),
        found.map((one) => one.value),
      ],
    ];
  if (claim !== undefined && row !== undefined && areSigned && claims.length === 1 && claim.rows.length === 1)
    return [CLAIM_ONE, oneClaim(claim, row)];
  return [many, manyClaims(claims)];
}

const oneClaim = (claim: NewClaim, row: NewHandlerRow) => [
  claim.source,
  claim.tenant,
  claim.eventId,
  claim.id,
  claim.type,
  claim.occurredAt ?? null,
  claim.origin,
  claim.verifiedBy,
  JSON.stringify(claim.headers),
  claim.body,
  row.id,
  ...rowValues(row),
];

const rowValues = (row: NewHandlerRow) => [
  row.name,
  row.lease?.owner ?? null,
  row.lease?.ms ?? 0,
  row.orderKey?.key ?? null,
  row.orderKey?.name ?? null,
  row.unusable === undefined ? null : storable(row.unusable, MAX_ERROR),
  row.trace ?? null,
];

function manyClaims(claims: readonly NewClaim[]): unknown[] {
  const rows = claims.flatMap((claim) => claim.rows.map((row) => ({ ...row, claimId: claim.id })));
  let end = 1;
  const bodyAt = claims.map(({ body }) => (end += body.length) - body.length);
  return [
    ...keysOf(claims),
    claims.map((c) => c.id),
    claims.map((c) => c.type),
    claims.map((c) => c.occurredAt ?? null),
    claims.map((c) => c.origin),
    claims.map((c) => c.verifiedBy),
    claims.map((c) => c.rows.length),
    claims.map((c) => c.bodySha256 ?? null),
    claims.map((c) => c.refuseKnownBytes ?? false),
    claims.map((c) => JSON.stringify(c.headers)),
    claims.length === 1 ? claims[0]!.body : Buffer.concat(claims.map((c) => c.body)),
    bodyAt,
    claims.map((c) => c.body.length),
    rows.map((r) => r.id),
    rows.map((r) => r.name),
    rows.map((r) => r.claimId),
    rows.map((r) => r.lease?.owner ?? null),
    rows.map((r) => r.lease?.ms ?? 0),
    rows.map((r) => r.orderKey?.key ?? null),
    rows.map((r) => r.orderKey?.name ?? null),
    rows.map((r) => (r.unusable === undefined ? null : storable(r.unusable, MAX_ERROR))),
    rows.map((r) => r.trace ?? null),
  ];
}

/** The keys of events, as three arrays. */
export const keysOf = (events: readonly EventKey[]) => [
  events.map((e) => e.source),
  events.map((e) => e.tenant),
  events.map((e) => e.eventId),
];
