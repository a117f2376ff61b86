import { headOf } from '../../core/event.js';
import { printableEncoding, type WebhookRequest } from '../../core/request.js';
import type { Source } from '../../core/options/resolve-source.js';
import { bodyVariants, type BodyVariant } from './body-variants.js';
import { headerVariants } from './header-variants.js';
import type { TrialBudget } from './trial-budget.js';
import { Trials } from './trials.js';

export type DiagnosisCode =
  | 'missing-header'
  | 'clock-skew'
  | 'other-source'
  | 'other-secret'
  | 'secret-format'
  | 'rewritten-body'
  | 'wrong-encoding'
  | 'compressed'
  | 'wrong-secret'
  | 'key-trouble'
  | 'unusable-event-id'
  | 'unexplained';

/** The most likely fault of a rejected request. */
export interface Diagnosis {
  readonly code: DiagnosisCode;
  /** A sentence for a person, with what to do. Never holds a secret or a signature. */
  readonly explanation: string;
}

export interface Rejected {
  readonly reason: string;
  readonly detail: string;
  readonly request: WebhookRequest;
}

/** The means of a diagnosis. */
export interface Means {
  /** All that are configured. */
  readonly sources: Iterable<Source>;
  /** The secrets that a source has for a request: those it had then, where they came from a function. */
  readonly secretsFor: (source: Source, request: WebhookRequest) => Promise<readonly string[]>;
  readonly budget: TrialBudget;
}

/** The part of the budget that a call of an application's `secrets` function uses. */
const ASKED_BYTES = 64 * 1024;

/** The cost of making another form of a body, in hashes of it. */
const MAKING = 8;

/** One rejection, while what may have been meant is tried. */
interface Case extends Rejected {
  readonly source: Source;
  readonly secrets: readonly string[];
  readonly means: Means;
  readonly trials: Trials;
}

/** Explains a rejection: tries changes that would have made it right, and names those tried and those not tried. */
export async function diagnose(rejected: Rejected, source: Source, means: Means): Promise<Diagnosis> {
  const { reason, detail, request } = rejected;
  if (reason === 'outside-window') return { code: 'clock-skew', explanation: detail };
  if (reason === 'key-unavailable' || reason === 'unusable-key')
    return { code: 'key-trouble', explanation: detail };
  // The signature was right.
  if (reason === 'unusable-event-id')
    return {
      code: reason,
      explanation: `${detail}. The source's idPath, idHeader or dedupe names the field or header.`,
    };
  const trials = new Trials(means.budget);
  const one = { reason, detail, request, source, means, trials };
  if (reason.startsWith('missing-')) {
    const found = await belongsElsewhere({ ...one, secrets: [] });
    return found ?? withTrials(missing(rejected), trials);
  }
  const secrets = await secretsOf(source, request, means, trials);
  return (await likely({ ...one, secrets })) ?? withTrials(unexplained(rejected), trials);
}

/** At home first: that costs the same however many sources there are. */
async function likely(one: Case): Promise<Diagnosis | undefined> {
  if (isRepeatable(one))
    return (
      (await otherSecretText(one)) ??
      (await otherBody(one)) ??
      (await belongsElsewhere(one)) ??
      (await otherHeader(one))
    );
  one.trials.leftOut(`other spellings for '${one.source.name}' (${ASKS[one.source.provider.asks!]})`);
  return belongsElsewhere(one);
}

/** Why a check is no matter of hashes alone, and so is not repeated. */
const ASKS = {
  vendor: 'its keys are fetched from the vendor',
  application: 'the application’s own function verifies',
} as const;

/** A vendor's key that has just said no is at hand; an application's function may ask anything. */
function isRepeatable({ source, reason }: Case): boolean {
  const { asks } = source.provider;
  return asks === undefined || (asks === 'vendor' && reason === 'wrong-signature');
}

async function otherSecretText({ source, request, secrets, trials }: Case): Promise<Diagnosis | undefined> {
  const found = await trials.first(
    `spellings of the secrets of '${source.name}'`,
    secretVariants(secrets),
    ([, variant]) => ({ provider: source.provider, request, secrets: variant }),
  );
  return (
    found && {
      code: 'secret-format',
      explanation: `The secret is right ${found[0]}: correct the configured text.`,
    }
  );
}

async function otherBody({ source, request, secrets, trials }: Case): Promise<Diagnosis | undefined> {
  const trialOf = ({ what, bytes }: BodyVariant) => {
    if (bytes !== undefined)
      return { provider: source.provider, request: { ...request, rawBody: bytes }, secrets };
    trials.leftOut(`the body ${what} (too large)`);
    return undefined;
  };
  const variants = bodyVariants(request.rawBody);
  const found = await trials.first('spellings of the body', variants, trialOf, MAKING);
  return (
    found && {
      code: 'rewritten-body',
      explanation:
        `The signature is right for the same body ${found.what}: a proxy, a gateway or a body parser before ` +
        `this application reads the body and writes it again. Make it pass the bytes through.`,
    }
  );
}

async function otherHeader({ source, request, secrets, trials }: Case): Promise<Diagnosis | undefined> {
  const found = await trials.first(
    'spellings of the headers',
    headerVariants(request.headers),
    ({ headers }) => ({ provider: source.provider, request: { ...request, headers }, secrets }),
  );
  return (
    found && {
      code: 'wrong-encoding',
      explanation: `The signature is right, but header '${found.name}' carries it ${found.what}: correct the sender, or the source's encoding and prefix.`,
    }
  );
}

async function belongsElsewhere(one: Case): Promise<Diagnosis | undefined> {
  const { source, request, means, trials } = one;
  const others = [...means.sources].filter(({ name }) => name !== source.name);
  for (const other of others) {
    const { asks } = other.provider;
    if (asks !== undefined) {
      trials.leftOut(`source '${other.name}' (${ASKS[asks]})`);
      continue;
    }
    const secrets = await secretsOf(other, request, means, trials);
    const found = await trials.first(
      `checks of source '${other.name}'`,
      [other, source].filter(({ provider }) => provider.asks === undefined),
      ({ provider }) => ({ provider, request, secrets }),
    );
    if (found !== undefined) return found === other ? ofOtherSource(one, other) : withOtherSecret(other);
  }
  return undefined;
}

function ofOtherSource({ source }: Case, other: Source): Diagnosis {
  return {
    code: 'other-source',
    explanation:
      `The request is right for source '${other.name}', secret and scheme: the sender has the URL of '${source.name}'. ` +
      `Give it the URL of '${other.name}'.`,
  };
}

function withOtherSecret(other: Source): Diagnosis {
  return {
    code: 'other-secret',
    explanation: `The signature was made with a secret of source '${other.name}': the secrets of the two are swapped, or both share one endpoint.`,
  };
}

async function secretsOf(
  source: Source,
  request: WebhookRequest,
  { secretsFor, budget }: Means,
  trials: Trials,
): Promise<readonly string[]> {
  if (typeof source.secrets !== 'function') return source.secrets;
  try {
    const secrets = (await budget.pay(ASKED_BYTES)) ? await secretsFor(source, request) : [];
    if (secrets.length > 0) return secrets;
  } catch {
    // A function of the application's may refuse a request that is not of its source.
  }
  trials.leftOut(`source '${source.name}' (its \`secrets\` function gave none for this request)`);
  return [];
}

function withTrials({ code, explanation }: Diagnosis, trials: Trials): Diagnosis {
  return { code, explanation: [explanation, trials.summary()].filter(Boolean).join(' ') };
}

function unexplained({ reason, detail, request }: Rejected): Diagnosis {
  const encoding = request.headers.first('content-encoding');
  if (encoding !== undefined) {
    return {
      code: 'compressed',
      explanation: `The body came with Content-Encoding ${printableEncoding(encoding)}: the sender may have signed it before it was compressed, or a proxy compressed it.`,
    };
  }
  if (reason === 'wrong-signature') {
    return {
      code: 'wrong-secret',
      explanation:
        'No known variant makes the signature right: the sender has another secret or key, or the request is forged. ' +
        'Compare the secret that the provider shows with the configured one.',
    };
  }
  return { code: 'unexplained', explanation: detail.endsWith('.') ? detail : `${detail}.` };
}

function missing({ detail, request }: Rejected): Diagnosis {
  const names = [...new Set(request.headers.entries().map(([name]) => name))];
  const alike = names.filter((name) => /sign|hmac|digest|timestamp|webhook/.test(name)).map(shown);
  const came =
    alike.length > 0
      ? `The request has these headers that look like one: ${alike.slice(0, 8).join(', ')}.`
      : 'The request has no header that looks like a signature: the sender does not sign, a proxy removes its headers, or this is no webhook.';
  return { code: 'missing-header', explanation: `${detail}. ${came}` };
}

function secretVariants(secrets: readonly string[]): [string, string[]][] {
  return [
    ['without the white space around it', secrets.map((secret) => secret.trim())],
    ['with a line break at its end', secrets.map((secret) => `${secret}\n`)],
    ['without the quotes around it', secrets.map((secret) => secret.replace(/^(["'])(.*)\1$/, '$2'))],
    ['without its prefix', secrets.map((secret) => secret.replace(/^whsec_/, ''))],
    ['with the prefix whsec_', secrets.map((secret) => `whsec_${secret}`)],
  ];
}

function shown(text: string): string {
  return JSON.stringify(headOf(text, 60));
}
