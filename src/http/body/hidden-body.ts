import type { IncomingMessage } from 'node:http';

/** A content type for a request whose body has been read. */
export const NO_BODY = 'application/vnd.webhook-inbox.no-body';

/**
 * Later readers find no body: parsers ask for these headers, and would wait for bytes that have been read. The content type stays, for code
 * of the application that asks for it. That of a form with parts goes, since its parsers ask for nothing else.
 */
export function showNoBody(request: IncomingMessage): void {
  for (const name of ['content-length', 'transfer-encoding']) delete request.headers[name];
  if (/^\s*multipart\//i.test(request.headers['content-type'] ?? '')) delete request.headers['content-type'];
  showEmpty(request);
}

/** A reader that does not ask for headers gets an empty body. The end was emitted before, and is not emitted again. */
export function showEmpty(request: IncomingMessage): void {
  // Some readers refuse a stream that was read.
  Object.defineProperty(request, 'readable', { value: true, configurable: true, writable: true });
  request.on('newListener', (event, listener: () => void) => {
    if (event === 'end' && request.readableEnded) setImmediate(listener);
  });
}

/** Makes later readers of the headers see a request without a body. */
export function hideBody(request: IncomingMessage): void {
  for (const name of ['content-type', 'content-length', 'transfer-encoding']) delete request.headers[name];
  // Fastify refuses one of this method that names no type, and before 5.12 one without a body.
  if (request.method === 'QUERY')
    Object.assign(request.headers, { 'content-type': NO_BODY, 'content-length': '1' });
}
