import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIPv6 } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../../core/answer.js';
import { SignatureRejection } from '../../core/errors.js';
import { neutral } from '../../core/neutral.js';
import { RequestHeaders } from '../../core/request.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import type { Encoding } from '../../core/options/source.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { ANSWERS } from '../../inbox/answers.js';
import { maxBytesOf, methodsOf } from '../../inbox/delivery.verifier.js';
import { Arrival, keepRawBody, type Arrived, type RawBody } from './arrival.js';
import { ByteBudget } from './byte-budget.js';
import { unpack } from './unpacking.js';

/** The part of an adapter's request that this file uses. */
export interface Sender {
  /** The sender's address, as the application's `trust proxy` or `trustProxy` has it. */
  readonly ip?: string;
}

/** A body may take this many ticks, and go without a byte for a third of them. */
const TICKS = 30;

/** Reads the bodies of webhook requests of any content type, within the limits of their source, of time and of the byte budget. */
@Injectable()
export class BodyIntake {
  /** Bodies that have not come to their end, those that are read and dropped too. */
  private readonly arriving = new Set<Arrival>();
  /** One for all bodies. It is there only while one is on its way. */
  private timer: NodeJS.Timeout | undefined;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly budget: ByteBudget,
  ) {}

  /**
   * Reads the body before any parser does. A refused body is read to its end as well, and dropped: a sender that is still writing would not
   * read the answer.
   * @returns false when nothing is left to answer: the sender has gone, or the answer was given. The bytes, or the refusal, are kept
   * beside the request. `rawBodyOf(request)` gives them
   */
  async read(
    request: IncomingMessage,
    response: ServerResponse,
    source: Source,
    sender: Sender,
  ): Promise<boolean> {
    if (request.destroyed || response.writableEnded) return false;
    const refused = this.refusal(request, source);
    if (refused !== undefined) {
      this.drop(request, response);
      keepRawBody(request, refused);
      return true;
    }
    const arrival = Arrival.kept(request, response, maxBytesOf(source, request.method ?? 'POST'), (one) =>
      this.budget.open(source.name, addressOf(sender), one),
    );
    this.follow(arrival);
    const arrived = await arrival.arrived;
    const body = arrived === 'gone' ? arrived : await this.unpack(request, source, arrived);
    if (body === 'gone' || arrival.isAnswered) return false;
    keepRawBody(request, body);
    return true;
  }

  /** Reads and drops an unwanted body, within the bounds. */
  drop(request: IncomingMessage, response: ServerResponse): void {
    this.follow(Arrival.dropped(request, response));
  }

  /** The refusal of a request that no body makes right. */
  private refusal(request: IncomingMessage, source: Source): RawBody | undefined {
    const method = request.method ?? 'POST';
    // The answer names the methods that exist.
    if (!methodsOf(source).includes(method)) return { refused: ANSWERS.wrongMethod };
    if (Number(request.headers['content-length'] ?? 0) > maxBytesOf(source, method))
      return { refused: ANSWERS.tooLarge };
    const encoding = encodingOf(request);
    if (encoding !== undefined && !source.encodings.some((one) => one === encoding))
      return { refused: ANSWERS.unsupportedEncoding };
    return this.rejection(request, source, method);
  }

  private rejection(request: IncomingMessage, { provider }: Source, method: string): RawBody | undefined {
    if (provider.checkHead === undefined || !(provider.methods ?? ['POST']).includes(method))
      return undefined;
    // With the bytes it can be verified once the configuration is corrected: these samples are kept for that.
    if (this.options.keepRejectionsMs > 0) return undefined;
    const head = { method, url: request.url ?? '', headers: RequestHeaders.fromRaw(request.rawHeaders) };
    try {
      provider.checkHead(head);
      return undefined;
    } catch (error) {
      // Any other error is found again by `verify`, with the bytes.
      return error instanceof SignatureRejection ? { rejected: error } : undefined;
    }
  }

  private async unpack(
    request: IncomingMessage,
    source: Source,
    arrived: Exclude<Arrived, 'gone'>,
  ): Promise<RawBody> {
    if ('refused' in arrived) return arrived;
    const encoding = encodingOf(request);
    if (encoding === undefined) return arrived;
    const { bytes: packed, holding } = arrived;
    const bytes: Buffer | Answer = await unpack(encoding as Encoding, packed, source, holding);
    if (!Buffer.isBuffer(bytes)) {
      holding.close();
      return { refused: bytes };
    }
    holding.giveBack(packed.length);
    return { bytes, holding };
  }

  private follow(arrival: Arrival): void {
    if (arrival.isOver) return;
    this.arriving.add(arrival);
    arrival.onOver(() => this.arriving.delete(arrival));
    this.timer ??= this.tickLater();
  }

  /** Ticks and not times: a process that stood still has not read the bytes that came meanwhile, and the sender is not to blame. */
  private tickLater(): NodeJS.Timeout {
    const tickMs = this.options.bodyTimeoutMs / TICKS;
    const tick = () => {
      for (const arrival of this.arriving) arrival.tick(TICKS, tickMs);
      this.timer = this.arriving.size > 0 ? this.tickLater() : undefined;
    };
    return neutral(() => setTimeout(tick, tickMs)).unref();
  }
}

/**
 * How a body is packed: undefined when it is not, and the header's text where the source does not accept it. `x-gzip` is another name
 * of gzip (RFC 9110, 8.4.1.3).
 */
export function encodingOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return undefined;
  return encoding === 'x-gzip' ? 'gzip' : encoding;
}

/** The application's own function may decide whom to trust, and throw: that is no reason to refuse. */
export function addressOf(sender: Sender): string {
  try {
    return networkOf(sender.ip);
  } catch {
    return '';
  }
}

/** An owner of an IPv6 address has the 2^64 addresses of its network. They count as one. */
export function networkOf(address: string | undefined): string {
  if (address === undefined || !isIPv6(address) || address.includes('.')) return address ?? '';
  const [head = '', tail] = address.split('%', 1)[0]!.split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - first.length - last.length }, () => '0');
  return [...first, ...zeros, ...last].slice(0, 4).join(':');
}
