import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { toMs, type Duration } from '../../core/options/duration.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { checkInput } from '../../core/options/schema.js';
import { ConfigurationError, InputRefused } from '../../core/errors.js';
import type { EventKey } from '../../core/event.js';
import { errorText, logLine } from '../../core/log/log.js';
import { sleep } from '../../core/time/waits.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { addressRules } from '../../effects/address-rules.js';
import { destination, DestinationRefused } from '../../effects/destination.js';
import { HttpClient, type Allow } from '../../effects/http-client.js';
import { ClaimStore } from '../../storage/claim.store.js';
import { ReplayStore } from '../../storage/desk/replay.store.js';
import type { StoredEvent } from '../../storage/stored-event.js';
import type { BulkOptions } from './bulk.options.js';
import { signedAnew, type ForwardSignature, type Resigned } from './signed-anew.js';

/** Options of `Replays.forward`. */
export interface ForwardOptions extends BulkOptions<ForwardReport> {
  /**
   * https to public addresses only, unless this opens it: `{ http: true, privateAddresses: ['10.1.2.3'] }` for a colleague's machine.
   * @default { }
   */
  readonly allow?: Allow;
  /** Sent beside the stored headers, and instead of those of the same name. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /** For one event. @default '10s' */
  readonly timeout?: Duration;
  /**
   * Signs each event as its provider does, at the time of sending, so that a receiver with this secret believes it.
   * @default none: the signature that is stored, if it is
   */
  readonly sign?: ForwardSignature;
  /** An edited copy, sent in place of the stored body of one event. The stored event does not change. @default none */
  readonly body?: string | Uint8Array;
}

/** An event that was not forwarded. */
export interface NotForwarded {
  readonly event: EventKey;
  readonly why: string;
}

/** Counts of one forward. */
export interface ForwardReport {
  /** To go on with when the forward was interrupted, or some have failed. */
  readonly id: string;
  /** Answered 2xx. */
  readonly forwarded: number;
  /** Forwarded before under this id. */
  readonly skipped: number;
  /** Answered otherwise, or not at all: under the same id they are sent again. */
  readonly failed: readonly NotForwarded[];
  /** There is nothing to send. */
  readonly refused: readonly NotForwarded[];
  /** Whether it ended early, since the other side failed so many times in a row. */
  readonly gaveUp: boolean;
}

const FAILURES_IN_A_ROW = 5;
/** Of one connection, not of the message; the length and the encoding of the body are those of what is sent now. */
const HOP_BY_HOP = new Set(
  'connection,content-encoding,content-length,expect,host,keep-alive,proxy-authenticate,proxy-authorization,proxy-connection,te,trailer,transfer-encoding,upgrade'.split(
    ',',
  ),
);

const signature = z
  .strictObject({ secret: z.string().min(1), options: z.record(z.string(), z.unknown()).optional() })
  .optional();

/** Sends stored events on to another URL, byte for byte unless they are signed anew or edited, one after the other. */
@Injectable()
export class Forwarder {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly store: ReplayStore,
  ) {}

  async forward(
    keys: readonly EventKey[],
    url: string | URL,
    options: ForwardOptions & { readonly id: string },
  ): Promise<ForwardReport> {
    checkSignature(options, keys);
    const { http = false, privateAddresses = false } = options.allow ?? {};
    const target = destination(url, http, addressRules(privateAddresses));
    const timeoutMs = timeoutOf(options);
    const client = new HttpClient();
    const failed: NotForwarded[] = [];
    const refused: NotForwarded[] = [];
    let [forwarded, skipped, inARow] = [0, 0, 0];
    const report = () => {
      const gaveUp = inARow === FAILURES_IN_A_ROW;
      return { id: options.id, forwarded, skipped, failed: [...failed], refused: [...refused], gaveUp };
    };
    try {
      for (const [index, { source, tenant, eventId }] of keys.entries()) {
        const event = { source, tenant, eventId };
        if (index > 0 && options.perSecond !== undefined)
          await sleep(1_000 / options.perSecond, options.signal);
        if (options.signal?.aborted === true || inARow === FAILURES_IN_A_ROW) break;
        const end = await this.forwardOne(client, event, target, { ...options, timeoutMs });
        if (end === 'skipped') skipped += 1;
        else if (end === 'forwarded') forwarded += 1;
        else (end.sent ? failed : refused).push({ event, why: end.why });
        if (end !== 'skipped') inARow = typeof end === 'object' && end.sent ? inARow + 1 : 0;
        options.onProgress?.(report(), keys.length);
      }
    } finally {
      await client.close();
    }
    const { by, reason, id } = options;
    const counts = { forwarded, skipped, failed: failed.length, refused: refused.length };
    this.logger.log(logLine('forward', { id, by, reason, to: target.origin, ...counts }));
    return report();
  }

  /** The request for an event. A text says why it cannot be signed. */
  private async sign(
    stored: StoredEvent,
    bytes: Buffer,
    url: URL,
    { sign, body }: ForwardOptions,
  ): Promise<Resigned | string> {
    const sent = body === undefined ? bytes : Buffer.from(body);
    if (sign === undefined) return { headers: stored.headers, body: sent };
    const source = this.options.sources.get(stored.source);
    if (source === undefined) return `source '${stored.source}' is not configured here`;
    return signedAnew(source.provider, stored, sent, body !== undefined, url, sign);
  }

  /** Taken when it was answered 2xx, not before: one that is interrupted sends at most one event again. */
  private async forwardOne(
    client: HttpClient,
    event: EventKey,
    url: URL,
    options: ForwardOptions & { readonly id: string; readonly timeoutMs: number },
  ): Promise<'forwarded' | 'skipped' | { readonly sent: boolean; readonly why: string }> {
    const { manager } = this.dataSource;
    const stored = await this.claims.load(manager, event);
    if (stored === undefined) return { sent: false, why: 'no such event' };
    if (await this.store.isTaken(manager, options.id, stored.id)) return 'skipped';
    if (stored.body === null)
      return { sent: false, why: 'its body was removed, by retention or by a person' };
    const signed = await this.sign(stored, stored.body, url, options);
    if (typeof signed === 'string') return { sent: false, why: signed };
    try {
      const { status } = await client.send({
        url,
        method: 'POST',
        headers: headersOf(signed.headers, options.headers),
        body: signed.body,
        timeoutMs: options.timeoutMs,
        allow: options.allow,
      });
      if (status < 200 || status >= 300) return { sent: true, why: `answered ${status}` };
    } catch (error) {
      // The same for every event: a URL that must not be called is the caller's mistake, not the event's.
      if (error instanceof DestinationRefused) throw error;
      return { sent: true, why: errorText(error) };
    }
    await this.store.take(manager, options.id, stored.id, options.by, options.reason);
    return 'forwarded';
  }
}

/** @throws InputRefused */
function checkSignature({ sign, body }: ForwardOptions, keys: readonly EventKey[]): void {
  checkInput(signature, sign, 'forward.sign');
  if (body !== undefined && keys.length !== 1)
    throw new InputRefused(`forward.body: expected one event for an edited copy, received ${keys.length}`);
}

function headersOf(
  stored: Readonly<Record<string, string>>,
  more: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const sent = new Map(Object.entries(stored).filter(([name]) => !HOP_BY_HOP.has(name)));
  for (const [name, value] of Object.entries(more)) sent.set(name.toLowerCase(), value);
  return Object.fromEntries(sent);
}

function timeoutOf({ timeout = '10s' }: ForwardOptions): number {
  const ms = toMs(timeout);
  if (ms !== undefined) return ms;
  throw new ConfigurationError(
    `forward: timeout: expected a duration such as '10s', received '${String(timeout)}'`,
  );
}
