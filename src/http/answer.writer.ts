import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Answer } from '../core/answer.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';

/** Writes answers through the HTTP adapter, past whatever would wrap them. */
@Injectable()
export class AnswerWriter {
  constructor(
    private readonly adapterHost: HttpAdapterHost,
    private readonly dispatcher: EventDispatcher,
  ) {}

  write(response: unknown, { status, body, headers }: Answer): void {
    const { httpAdapter } = this.adapterHost;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const type = typeof body === 'string' ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8';
    httpAdapter.setHeader(response, 'content-type', type);
    for (const [name, value] of Object.entries(headers ?? {})) httpAdapter.setHeader(response, name, value);
    // While shutting down, the connection must not be kept for another request: close() waits for it.
    if (this.dispatcher.isDraining) httpAdapter.setHeader(response, 'connection', 'close');
    httpAdapter.reply(response, text, status);
  }
}
