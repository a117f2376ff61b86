import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';

/**
 * Headers on every answer. Only the page's own files may run or be requested. Answers are not kept, not read as another type, and not
 * framed.
 */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'cache-control': 'no-store',
};

/** Writes answers through the HTTP adapter: interceptors of the application that wrap answers would break the page. */
@Injectable()
export class Reply {
  constructor(private readonly adapterHost: HttpAdapterHost) {}

  json(response: unknown, value: unknown, status = 200): void {
    this.send(response, JSON.stringify(value), status, { 'content-type': 'application/json; charset=utf-8' });
  }

  send(
    response: unknown,
    body: string | Buffer,
    status: number,
    headers: Readonly<Record<string, string>>,
  ): void {
    const { httpAdapter } = this.adapterHost;
    for (const [name, value] of Object.entries({ ...SECURITY_HEADERS, ...headers })) {
      httpAdapter.setHeader(response, name, value);
    }
    if (httpAdapter.getType() === 'express') {
      // Nest's own reply writes a Buffer as JSON there.
      httpAdapter.status(response, status);
      httpAdapter.end(response, body as string);
      return;
    }
    httpAdapter.reply(response, body, status);
  }
}
