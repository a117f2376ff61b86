import { secretOf } from './secrets.js';

/** Three requests to try by hand: new, the same again, and a forged one. They paste into any POSIX shell with curl and openssl. */
export function curlCommands(origin: string): string {
  const id = `try-${Date.now()}`;
  const body = '{"account":"a-7","plan":"pro","credits":500}';
  const signature = `$(printf '%s' '${body}' | openssl dgst -sha256 -hmac '${secretOf('awardee')}' -r | cut -d ' ' -f 1)`;
  const curl = (sent: string) =>
    [
      `curl -si -w '\\n' ${origin}/webhooks/awardee \\`,
      `  -H 'Content-Type: application/json' -H 'X-Awardee-Delivery: ${id}' -H 'X-Awardee-Event: grant.made' \\`,
      `  -H "X-Awardee-Signature: ${signature}" \\`,
      `  -d '${sent}'`,
    ].join('\n');
  return [
    '# a signed event: 200 {"status":"ok"}',
    curl(body),
    '# the same once more: 200 {"status":"duplicate"}',
    curl(body),
    '# a forgery, with the signature of another body: 401 {"status":"unauthorized"}',
    curl(body.replace('500', '5000')),
  ].join('\n');
}
