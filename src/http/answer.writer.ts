import type { ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Answer } from '../core/answer.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';

/** Writes answers past whatever would wrap them. */
@Injectable()
export class AnswerWriter {
  constructor(
    private readonly adapterHost: HttpAdapterHost,
    private readonly dispatcher: EventDispatcher,
  ) {}

  /** Through the HTTP adapter. */
  write(response: unknown, answer: Answer): void {
    const { httpAdapter } = this.adapterHost;
    for (const [name, value] of this.headers(answer)) httpAdapter.setHeader(response, name, value);
    httpAdapter.reply(response, textOf(answer), answer.status);
  }

  /** To Node's own response. */
  writeDirect(response: ServerResponse, answer: Answer): void {
    const text = textOf(answer);
    for (const [name, value] of this.headers(answer)) response.setHeader(name, value);
    if (answer.status === NO_CONTENT) response.removeHeader('content-type');
    else response.setHeader('content-length', Buffer.byteLength(text));
    response.statusCode = answer.status;
    response.end(text);
  }

  private headers({ body, headers = {} }: Answer): [string, string][] {
    const type = typeof body === 'string' ? 'text/plain' : 'application/json';
    const all: [string, string][] = [['content-type', `${type}; charset=utf-8`], ...Object.entries(headers)];
    // While shutting down, the connection must not be kept for another request: close() waits for it.
    if (this.dispatcher.isDraining) all.push(['connection', 'close']);
    return all;
  }
}

/** Neither a type nor a length belong to it; Express leaves them out, too. */
const NO_CONTENT = 204;

function textOf({ body }: Answer): string {
  return typeof body === 'string' ? body : JSON.stringify(body);
}
