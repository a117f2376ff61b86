import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Answer } from '../../core/answer.js';
import type { SignatureRejection } from '../../core/errors.js';
import { ANSWERS } from '../../inbox/answers.js';
import type { Holding } from './byte-budget.js';
import { Chunks } from './chunks.js';
import { LARGE_BYTES, waitForTurn } from './large-bodies.js';

/** Bytes a millisecond (about 16 kB a second) below which a body is slow: the first to be given up when others need its room. */
const SLOW_BYTES_PER_MS = 16;
/** Bytes of a refused body that are read so that its sender sees the answer; then the connection is closed. GitHub's largest are 25 MB. */
const MAX_DROPPED_BYTES = 32 * 1024 * 1024;

/** The bytes of a request, or why they were not taken. */
export type RawBody =
  | { readonly bytes: Buffer; readonly holding: Holding }
  | { readonly refused: Answer }
  /** No body would make it right: its headers are refused already. */
  | { readonly rejected: SignatureRejection };

/** The end of a body. */
export type Arrived = Exclude<RawBody, { readonly rejected: unknown }> | 'gone';

const kept = new WeakMap<IncomingMessage, RawBody>();

export function keepRawBody(request: IncomingMessage, body: RawBody): void {
  kept.set(request, body);
}

/** The bytes that the reader kept of a request. Undefined when it never read the request. */
export function rawBodyOf(request: IncomingMessage): RawBody | undefined {
  return kept.get(request);
}

/** Functions to call when a connection ends. */
const connections = new WeakMap<object, Set<() => void>>();

/** Node emits the end of a connection on the response whose turn it is alone, and on none of those that wait behind it. */
function atEndOf(connection: Partial<Socket> | undefined, over: () => void): void {
  // A serverless host makes requests without a connection.
  if (connection?.once === undefined) return;
  if (connection.destroyed === true) return over();
  let all = connections.get(connection);
  if (all === undefined) {
    const these = (all = new Set());
    connections.set(connection, these);
    connection.once('close', () => {
      for (const one of these) one();
    });
  }
  all.add(over);
}

/** A body on its way in. Once it is refused or answered nothing of it is kept, and the rest is read and dropped within bounds. */
export class Arrival {
  readonly arrived: Promise<Arrived>;
  private resolve!: (arrived: Arrived) => void;
  private readonly chunks = new Chunks();
  private holding: Holding | undefined;
  private read = 0;
  private kept = 0;
  private dropped = 0;
  private ticks = 0;
  private idleTicks = 0;
  private inThisTick = 0;
  /** The tick at which the body is given up, complete or not. */
  private lastTick = Infinity;
  private over: (() => void) | undefined;
  /** Set once Node wants to end the connection, which waits for the rest of the body. */
  private isLast = false;
  private closeSoon: (() => void) | undefined;
  isOver = false;

  private constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly maxBytes: number,
  ) {
    this.arrived = new Promise((resolve) => (this.resolve = resolve));
    request.on('data', (chunk: Buffer) => this.add(chunk));
    request.on('end', () => this.end());
    request.on('close', () => this.finish('gone'));
    request.on('error', () => this.finish('gone'));
    if (!request.complete) this.linger();
  }

  /** @param hold gives it its holding */
  static kept(
    request: IncomingMessage,
    response: ServerResponse,
    maxBytes: number,
    hold: (arrival: Arrival) => Holding,
  ): Arrival {
    const arrival = new Arrival(request, response, maxBytes);
    const holding = hold(arrival);
    arrival.holding = holding;
    const over = () => {
      connections.get(request.socket)?.delete(over);
      holding.close();
    };
    response.once('close', over);
    atEndOf(request.socket, over);
    return arrival;
  }

  /** One that is refused before it comes. */
  static dropped(request: IncomingMessage, response: ServerResponse): Arrival {
    return new Arrival(request, response, 0);
  }

  get isAnswered(): boolean {
    return this.response.writableEnded || this.response.closed;
  }

  /** Others need its room, or its answer is given and only waits to be read. */
  giveUp(): void {
    // Its request lasts until the answer is read, and the bytes with it.
    if (rawBodyOf(this.request) !== undefined) keepRawBody(this.request, { refused: ANSWERS.unavailable });
    this.refuse(ANSWERS.unavailable);
  }

  onOver(over: () => void): void {
    this.over = over;
  }

  /** @param most ticks that it may take in all; a third of them without a byte */
  tick(most: number, tickMs: number): void {
    this.ticks += 1;
    this.idleTicks = this.inThisTick === 0 ? this.idleTicks + 1 : 0;
    // It may have come in the middle of its first.
    if (this.ticks > 1) this.holding?.markSlow(this.inThisTick < SLOW_BYTES_PER_MS * tickMs);
    this.inThisTick = 0;
    const isLate = this.ticks >= most || this.idleTicks >= most / 3;
    if (!isLate) return;
    if (this.holding !== undefined) {
      this.refuse(ANSWERS.unavailable);
      // Time for the answer to get there.
      this.lastTick = this.ticks + 2;
    } else if (this.lastTick === Infinity || this.ticks >= this.lastTick) {
      this.request.destroy();
    }
  }

  /**
   * Node closes a connection that is not kept right after the answer, and the system resets one with unread bytes. A sender that still
   * writes would see the reset instead of the answer. So our side alone is ended, and the rest is read within the bounds.
   */
  private linger(): void {
    const { socket, httpVersionMajor } = this.request;
    // Streams of HTTP/2 share a socket, and none of them ends it. A serverless host has none.
    if (httpVersionMajor !== 1 || !(socket instanceof Socket)) return;
    const destroySoon = () => {
      this.isLast = true;
      socket.end();
    };
    socket.destroySoon = destroySoon;
    this.closeSoon = () => {
      // A pipelined request begins before the body in front of it has emitted its end.
      if (socket.destroySoon === destroySoon) socket.destroySoon = ownDestroySoon;
      if (this.isLast) socket.destroySoon();
    };
  }

  private add(chunk: Buffer): void {
    this.inThisTick += chunk.length;
    this.read += chunk.length;
    if (this.read > LARGE_BYTES) waitForTurn(this.request);
    if (this.holding === undefined) this.drop(chunk);
    else if (this.isAnswered) this.refuse(ANSWERS.unavailable);
    else if (this.kept + chunk.length > this.maxBytes) this.refuse(ANSWERS.tooLarge);
    else if (!this.holding.take(chunk.length)) this.refuse(ANSWERS.unavailable);
    else {
      this.kept += chunk.length;
      this.chunks.add(chunk);
    }
  }

  private drop(chunk: Buffer): void {
    this.dropped += chunk.length;
    if (this.dropped > MAX_DROPPED_BYTES && this.isAnswered) this.request.destroy();
  }

  private refuse(refused: Answer): void {
    this.holding?.close();
    this.holding = undefined;
    this.chunks.clear();
    this.resolve({ refused });
  }

  private end(): void {
    const { holding } = this;
    if (holding === undefined) return this.finish('gone');
    holding.markArrived();
    this.finish({ bytes: this.chunks.toBuffer(), holding });
  }

  private finish(arrived: Arrived): void {
    if (this.isOver) return;
    this.isOver = true;
    this.holding?.markSlow(false);
    this.resolve(arrived);
    this.closeSoon?.();
    this.over?.();
  }
}

/** That of every socket. */
function ownDestroySoon(this: Socket): void {
  Socket.prototype.destroySoon.call(this);
}
