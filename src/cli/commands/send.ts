import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { InvalidArgumentError, Option } from 'commander';
import { didYouMean } from '../../core/options/did-you-mean.js';
import type { Source } from '../../core/options/resolve-source.js';
import type { SignedWebhook } from '../../sources/signers/sign-webhook.js';
import { count, duration, type Definition, type Task } from '../command.js';
import type { Session } from '../session/session.js';
import { EXIT, UsageError } from '../terminal/exit.js';
import { printable } from '../terminal/table.js';
import { explained, expectedAnswers, received, storedExplanation, type Received } from '../send/answers.js';

interface SendOptions {
  readonly type?: string;
  readonly id?: string;
  readonly file?: string;
  readonly times: number;
  readonly tamper?: boolean;
  readonly skew?: number;
  readonly url: string;
  readonly secret?: string;
  readonly scheme?: Readonly<Record<string, unknown>>;
}

export const send: Definition<SendOptions> = {
  usage: 'send <source>',
  about: 'Signs an event as the provider does, sends it to the running application, and explains the answer.',
  needs: { application: "the source's scheme and its secrets" },
  options: [
    new Option('--type <type>', "the event's type; default: the provider's commonest"),
    new Option('--id <id>', "the event's id; default: a new one"),
    new Option('--file <file>', 'the body; default: a sample of the provider'),
    new Option('--times <n>', 'send the same request so many times').argParser(count).default(1),
    new Option('--tamper', 'change a byte after signing: the answer must be 401'),
    new Option('--skew <time>', 'sign a time so long ago, such as 1h').argParser(duration),
    new Option('--url <url>', 'where to; without a path, the path of the source is added')
      .argParser(address)
      .default('http://localhost:3000'),
    new Option('--secret <text>', "another secret than the source's first"),
    new Option('--scheme <json>', 'options of the source, for hmac and convoy').argParser(object),
  ],
  run: async (task, options, ...args) => {
    const [name] = args as unknown[] as [string];
    const { session, out, signal } = task;
    const source = sourceNamed(session, name);
    const url = targetOf(task, source, options.url);
    const signed = await signedFor(task, source, url, options);
    const body = options.tamper === true ? tampered(signed.body) : signed.body;
    const expected = expectedAnswers(signed, source, options);
    const sentAt = new Date();
    const answers: Received[] = [];
    for (let nth = 0; nth < options.times && !signal.aborted; nth += 1)
      answers.push(await received(url, { ...signed, body }, expected[nth]!));
    const isRight = answers.every((answer) => answer.asExpected);
    const wrong = answers.find((answer) => !answer.asExpected);
    const why = wrong?.status === 401 ? await storedExplanation(session, name, sentAt) : undefined;
    out.answer(
      {
        url,
        id: signed.id,
        type: signed.type,
        answers,
        asExpected: isRight,
        ...(why !== undefined && { why }),
      },
      () => {
        for (const answer of answers)
          out.line(
            `${answer.status ?? 'no answer'}  ${printable(answer.body)}  ${explained(answer, source)}`,
          );
        if (why !== undefined) out.line(`The application says: ${printable(why)}`);
        if (wrong !== undefined) out.line(`Expected: ${wrong.expected}.`);
        else if (!options.tamper)
          out.line(`Look at it: webhook-inbox show ${printable(signed.id)} --source ${name}`);
      },
    );
    return isRight ? undefined : EXIT.failed;
  },
};

async function signedFor(
  { out }: Task,
  source: Source,
  url: string,
  options: SendOptions,
): Promise<SignedWebhook> {
  const { signWebhook, testKeys } = await import('../../sources/signers/sign-webhook.js');
  const { type, file, skew = 0, scheme } = options;
  const { name: provider } = source.provider;
  const keys = testKeys(provider);
  const common = {
    id: options.id ?? `evt_${randomUUID()}`,
    at: new Date(Date.now() - skew),
    url,
    ...(type !== undefined && { type }),
    ...(file !== undefined && { body: bodyOf(file) }),
    ...(scheme !== undefined && { options: scheme }),
  };
  if (keys.privateKey === undefined)
    return signWebhook(provider, { ...common, secret: secretOf(source, options) });
  out.note(
    `${provider} signs with a private key, which only ${provider} has: this request is signed with a new key pair. The application ` +
      `accepts it only while the source is configured with:\n${keys.published ?? keys.secret}`,
  );
  return signWebhook(provider, { ...common, keys });
}

/** @throws UsageError */
function sourceNamed({ options }: Session, name: string): Source {
  const source = options.sources.get(name);
  if (source !== undefined) return source;
  throw new UsageError(`no source '${name}' is configured${didYouMean(name, [...options.sources.keys()])}`);
}

/** @throws UsageError where a function gives the secrets */
function secretOf(source: Source, { secret }: SendOptions): string {
  const [first] = typeof source.secrets === 'function' ? [] : source.secrets;
  const chosen = secret ?? first;
  if (chosen !== undefined) return chosen;
  throw new UsageError(
    `--secret: source '${source.name}' gets its secrets from a function: expected one of them`,
  );
}

function bodyOf(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new UsageError(`--file: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** A prefix that main.ts sets is not in the root module: a URL with a path is taken as it is. */
function targetOf({ session }: Task, { name }: Source, given: string): string {
  const url = new URL(given);
  if (url.pathname !== '/') return url.href;
  const { own, routes } = session.routes.paths(name);
  const [path] = [...routes, ...own];
  if (path === undefined)
    throw new UsageError(
      `--url: source '${name}' is served at no path: expected a URL with the path of your own route`,
    );
  url.pathname = path;
  return url.href;
}

function tampered(body: Buffer): Buffer {
  const changed = Buffer.from(body);
  const at = changed.length - 1;
  // A space before the end is the same JSON with other bytes.
  return at < 0
    ? Buffer.from(' ')
    : Buffer.concat([changed.subarray(0, at), Buffer.from(' '), changed.subarray(at)]);
}

function address(text: string): string {
  if (URL.canParse(text) && /^https?:/.test(text)) return text;
  throw new InvalidArgumentError(`Expected an http or https URL, received '${text}'.`);
}

function object(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new InvalidArgumentError(`Expected a JSON object, such as '{"signatureHeader":"X-Acme-Signature"}'.`);
}
