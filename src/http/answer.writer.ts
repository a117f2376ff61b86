import { validateHeaderName, validateHeaderValue, type ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import type { Answer } from '../core/answer.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { errorText, logLine } from '../core/log/log.js';
import { Throttle } from '../core/log/throttle.js';
import { ANSWERS } from '../inbox/answers.js';
import { DeliveryRuns } from '../inbox/runs/delivery-runs.js';
import { BodyIntake } from './body/body-intake.js';
import { rawBodyOf } from './body/arrival.js';

/** The part of Fastify's reply that this file uses. */
interface FastifyReplyLike {
  readonly raw: ServerResponse;
  code(status: number): FastifyReplyLike;
  headers(headers: Readonly<Record<string, string>>): FastifyReplyLike;
  send(text: string): unknown;
}

/** Writes answers past Nest and the application's interceptors. */
@Injectable()
export class AnswerWriter {
  private readonly logger = new InboxLogger();
  private readonly lines = new Throttle();
  private readonly written = new WeakSet<ServerResponse>();

  constructor(
    private readonly runs: DeliveryRuns,
    private readonly intake: BodyIntake,
  ) {}

  /** To Express's response, which is Node's, or to Fastify's reply, so that its hooks see it. */
  write(response: ServerResponse | FastifyReplyLike, answer: Answer): void {
    const raw = 'raw' in response ? response.raw : response;
    // The application has given up on the request and answered itself.
    if (raw.headersSent) return;
    if (!('raw' in response)) return this.writeDirect(response, answer);
    const sound = this.sendable(answer);
    this.begin(raw);
    response
      .code(sound.status)
      .headers(Object.fromEntries(this.headers(sound)))
      .send(textOf(sound));
  }

  /** To Node's own response. */
  writeDirect(response: ServerResponse, given: Answer): void {
    const answer = this.sendable(given);
    const text = textOf(answer);
    for (const [name, value] of this.headers(answer)) response.setHeader(name, value);
    if (answer.status === NO_CONTENT) response.removeHeader('content-type');
    else response.setHeader('content-length', Buffer.byteLength(text));
    response.statusCode = answer.status;
    this.begin(response);
    response.end(text);
  }

  private begin(response: ServerResponse): void {
    this.written.add(response);
    const { req } = response;
    // For an unknown source the reader has not read it, and Node would cut off a sender that still writes.
    if (!req.complete && !req.readableEnded && rawBodyOf(req) === undefined) this.intake.drop(req, response);
  }

  /** Whether the answer was given here, and not by the application. */
  hasWritten(response: ServerResponse): boolean {
    return this.written.has(response);
  }

  /** A provider of the application may make an answer that HTTP does not have. Then the answer asks the provider to come again. */
  private sendable(answer: Answer): Answer {
    try {
      checkSendable(answer);
      return answer;
    } catch (error) {
      const line = this.lines.admit('');
      const text = `an answer could not be sent, answered 503 instead: ${errorText(error)}`;
      if (line !== undefined) this.logger.error(logLine(text, { ...line }));
      return ANSWERS.unavailable;
    }
  }

  private headers({ body, headers = {} }: Answer): [string, string][] {
    const type = typeof body === 'string' ? 'text/plain' : 'application/json';
    const all: [string, string][] = [['content-type', `${type}; charset=utf-8`], ...Object.entries(headers)];
    // While shutting down, the connection must not be kept for another request: close() waits for it.
    if (this.runs.isDraining) all.push(['connection', 'close']);
    return all;
  }
}

/** Neither a type nor a length belong to it; Express leaves them out, too. */
const NO_CONTENT = 204;

/** @throws Error for a status, a header or a body that cannot be sent */
function checkSendable(answer: Answer): void {
  const { status, headers = {} } = answer;
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new RangeError('expected a status from 200 to 599');
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
  // JSON has none for a function, and refuses a bigint.
  if (typeof textOf(answer) !== 'string') throw new TypeError('expected a body that JSON has');
}

function textOf({ body }: Answer): string {
  return typeof body === 'string' ? body : JSON.stringify(body);
}
