import { execFile, spawnSync } from 'node:child_process';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';

// By a name that the compiler does not follow: the page is compiled for browsers, by its own rules.
const page: string = '../../dashboard/src/curl.ts';
const { curlOf } = (await import(page)) as {
  curlOf: (event: { headers: Record<string, string> }, body: string) => string | undefined;
};

/** `npm test` needs nothing beyond npm; `.ci/run` has both. */
const isThere = (command: string) => spawnSync(command, ['--version']).error === undefined;
const itRuns = isThere('curl') && isThere('bash') ? it : it.skip;

describe('a delivery as a curl command', () => {
  let got: { headers: IncomingHttpHeaders; body: string }[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      got.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
      response.end();
    });
  });
  let url: string;
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  beforeEach(() => {
    got = [];
  });
  afterAll(() => server.close());
  const run = (command: string) =>
    promisify(execFile)('bash', ['-c', command], { env: { ...process.env, URL: url, no_proxy: '*' } });

  itRuns.each([
    ['a file’s name', '@/etc/passwd'],
    ['quotes', `it's "so" ''quoted'' '`],
    ['line breaks', 'one\ntwo\r\nthree\n'],
    ['what a shell would run', "$HOME `id` $(id) ; id & !! \\ \\n \\'"],
    ['an option', '--config /etc/passwd'],
    ['nothing', ''],
    ['other characters', '{"name":"Zoë 🎉"}'],
  ])('sends the very bytes: %s', async (_what, body) => {
    await run(
      curlOf(
        { headers: { 'content-type': 'application/json', 'x-note': body.trim().split('\n')[0]! } },
        body,
      )!,
    );
    expect(got).toHaveLength(1);
    expect(got[0]!.body).toBe(body);
    expect(got[0]!.headers['content-type']).toBe('application/json');
  });

  itRuns('adds no content type and drops no header', async () => {
    await run(curlOf({ headers: { 'x-empty': '', 'x-note': `@it's` } }, 'a=b')!);
    expect(got[0]!.headers).toMatchObject({ 'x-empty': '', 'x-note': `@it's` });
    expect(got[0]!.headers).not.toHaveProperty('content-type');
  });

  it('is not offered for what no argument can hold', () => {
    expect(curlOf({ headers: {} }, 'a\u0000b')).toBeUndefined();
    expect(curlOf({ headers: {} }, 'ü'.repeat(60_000))).toBeUndefined();
  });
});
