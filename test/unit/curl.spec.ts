import { execFile, spawnSync } from 'node:child_process';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { contentOf } from '../../src/dashboard/content.js';
import { crossSiteFault } from '../../src/dashboard/same-origin.js';

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

  const hostile = [
    ['Ctrl-C, and a command on the next line', `{"a":1}\u0003\rtouch /tmp/pwned\r`],
    ['the end of a bracketed paste', `\u001b[201~\ntouch /tmp/pwned\n`],
    ['C1 controls and marks that turn text round', 'a\u0085b\u009bc\u202ed\u2028e\u2029f\ufeffg'],
    ['history', `!! !-1 !x "!" '!'`],
    ['backslashes and quotes', `\\ \\' \\x41 $'\\'' \\`],
  ] as const;

  it.each([...hostile, ...fuzzed()])('holds nothing that a terminal acts on: %s', (_what, body) => {
    const command = curlOf({ headers: { 'x-note': body, 'x-empty': '' } }, body)!;
    expect(command.replaceAll(' \\\n  ', ' ')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  });

  itRuns('is read by a shell as the very bytes, whatever they are', async () => {
    const bodies = [...hostile, ...fuzzed()].map(([, body]) => body);
    // Instead of curl a function that gives its last argument back; with history expansion, as where somebody pastes.
    const commands = bodies.map((body) => curlOf({ headers: { 'x-note': body } }, body)!);
    const script = `set -o history -H\ncurl() { printf '%s\\0' "\${@: -1}"; }\n${commands.join('\n')}\n`;
    const { stdout, stderr } = spawnSync('bash', ['-s'], {
      input: script,
      env: { ...process.env, URL: url },
    });
    expect(stderr.toString()).toBe('');
    expect(stdout.equals(Buffer.from(bodies.map((body) => `${body}\0`).join('')))).toBe(true);
  });

  it('is not offered for what no argument can hold', () => {
    expect(curlOf({ headers: {} }, 'a\u0000b')).toBeUndefined();
    expect(curlOf({ headers: {} }, 'ü'.repeat(60_000))).toBeUndefined();
  });
});

/** Bodies of characters that a shell or a terminal may act on, always the same ones. */
function fuzzed(): [string, string][] {
  let state = 15;
  const next = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  const character = () => {
    const kind = next(3);
    if (kind === 0) return String.fromCodePoint(1 + next(0xa0));
    if (kind === 1) return `'"\\$!\`;&|<>()#~*?[]{}=%\n\r\t @-`[next(31)]!;
    return ['é', '\u200e', '\u2066', '🎉', '\u{e0001}', '\ue000', '中', '\u00ad'][next(8)]!;
  };
  return Array.from({ length: 200 }, (_, n) => [
    `fuzzed ${n}`,
    Array.from({ length: 1 + next(60) }, character).join(''),
  ]);
}

describe('stored bytes for the page', () => {
  const SHOWN = 512 * 1024;

  it('of half a megabyte that is no text are told apart at once', () => {
    const body = Buffer.alloc(SHOWN + 1, 0xff);
    body[SHOWN - 1] = 0x61;
    expect(contentOf(body)).toMatchObject({ encoding: 'base64', bytes: SHOWN + 1, cut: true });
    const replaced = Buffer.from('\ufffd'.repeat(SHOWN / 3));
    expect(contentOf(Buffer.concat([replaced, Buffer.from('abc')]))).toMatchObject({ encoding: 'utf8' });
  });

  it('are cut in whole characters', () => {
    const body = Buffer.from(`${'a'.repeat(SHOWN - 1)}é`);
    expect(contentOf(body)).toMatchObject({ encoding: 'utf8', text: 'a'.repeat(SHOWN - 1), cut: true });
  });
});

it.each([
  [{ origin: 'https://desk.example', host: 'desk.example' }, true],
  [{ origin: 'https://desk.example', ':authority': 'desk.example' }, true],
  [{ origin: 'https://desk.example', host: 'other.example' }, false],
  [{ origin: 'null', host: 'desk.example' }, false],
  [{ origin: 'null' }, false],
])('an action from %j is of the page itself: %s', (headers, isOwn) => {
  const fault = crossSiteFault({ headers: { 'content-type': 'application/json', ...headers } });
  expect(fault === undefined).toBe(isOwn);
});
