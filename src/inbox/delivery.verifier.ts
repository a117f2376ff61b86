import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../core/answer.js';
import { BodyReader } from '../core/body.js';
import { SignatureRejection } from '../core/errors.js';
import { eventId } from '../core/ids.js';
import { outcomeOf } from '../core/lazy.js';
import { errorText } from '../core/log/log.js';
import type { Provider, Verification } from '../core/provider.js';
import type { WebhookRequest } from '../core/request.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { checkSecrets, type Source } from '../core/options/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { TenantSecrets } from '../core/options/source.js';
import { withTimeLimit } from '../core/time/waits.js';
import type { VerifiedDelivery } from './delivery.js';

/** A verified request: a delivery, or a handshake of the vendor. */
export type Verified =
  | { readonly kind: 'delivery'; readonly delivery: VerifiedDelivery }
  /** A challenge of the vendor, answered in its own form. */
  | { readonly kind: 'handshake'; readonly answer: Answer };

/** A signature whose MAC was right. */
export interface VerifiedSignature extends Verification {
  /** How far the signed time lies from now in milliseconds: positive in the past, negative in the future. Undefined when no time is signed. */
  readonly skewMs?: number;
  /** False when that is more than the tolerance: a replay, or a clock that is off. */
  readonly inWindow: boolean;
}

const ASKED_AGAIN_MS = 1_000;

/** Turns a request into a verified delivery: secrets of its tenant, signature, window, handshake. Touches no database. */
@Injectable()
export class DeliveryVerifier {
  /** The secrets that a `secrets` function returned for a refused request, kept as long as the request. */
  private readonly given = new WeakMap<
    WebhookRequest,
    { readonly source: string; readonly secrets: readonly string[] }
  >();

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /**
   * @param nowMs the time against which the window is judged; the arrival, for a request that is verified again
   * @throws SignatureRejection
   * @throws the error of a `secrets` function or of a handshake, also when it takes too long
   */
  async verify(source: Source, request: WebhookRequest, nowMs = Date.now()): Promise<Verified> {
    const { claimTimeoutMs } = this.options;
    const { secrets, tenant } =
      typeof source.secrets === 'function'
        ? await secretsOf(source, source.secrets, request, claimTimeoutMs)
        : { secrets: source.secrets, tenant: '' };
    let outcome: VerifiedSignature | SignatureRejection;
    try {
      if (secrets.length === 0) throw unknownSecret(source);
      outcome = judged(await source.provider.verify(request, secrets), source.toleranceMs, nowMs);
    } catch (error) {
      outcome = rejectionOf(error);
      if (typeof source.secrets === 'function') this.given.set(request, { source: source.name, secrets });
    }
    const answer = source.provider.handshake && (await this.handshake(source, request, secrets, outcome));
    if (answer !== undefined) return { kind: 'handshake', answer };
    if (outcome instanceof SignatureRejection) throw outcome;
    if (!outcome.inWindow && source.staleDuplicates === 'reject') throw outsideWindow(source, outcome.skewMs);
    return {
      kind: 'delivery',
      delivery: {
        source,
        request,
        body: new BodyReader(request.rawBody),
        tenant,
        verifiedBy: fingerprint(secrets[outcome.secret] ?? ''),
        stale: !outcome.inWindow,
        skewMs: outcome.skewMs,
      },
    };
  }

  /**
   * The secrets of a source for a refused request. Where a function returns them, those of that moment.
   * @throws the error of such a function, also when it takes longer than a second
   */
  async secretsFor(source: Source, request: WebhookRequest): Promise<readonly string[]> {
    if (typeof source.secrets !== 'function') return source.secrets;
    const given = this.given.get(request);
    if (given?.source === source.name) return given.secrets;
    return (await secretsOf(source, source.secrets, request, ASKED_AGAIN_MS)).secrets;
  }

  private handshake(
    source: Source,
    request: WebhookRequest,
    secrets: readonly string[],
    outcome: VerifiedSignature | SignatureRejection,
  ): Answer | undefined | Promise<Answer | undefined> {
    const signature = outcome instanceof SignatureRejection ? undefined : outcome;
    const answer = handshakeAnswer(source.provider, request, secrets, signature);
    return answer instanceof Promise
      ? withTimeLimit(answer, this.options.claimTimeoutMs, `the handshake of source '${source.name}'`)
      : answer;
  }
}

/**
 * Judges the time of a signature. The MAC comes first, so that a clock error is distinguished from a forgery.
 * @param toleranceMs milliseconds both ways, inclusive; undefined when the scheme signs no time
 * @param nowMs milliseconds since 1970
 */
export function judged(
  verification: Verification,
  toleranceMs: number | undefined,
  nowMs: number,
): VerifiedSignature {
  const expired = verification.expiresAt !== undefined && nowMs > verification.expiresAt;
  if (verification.signedAt === undefined || toleranceMs === undefined)
    return { ...verification, inWindow: !expired };
  const skewMs = nowMs - verification.signedAt;
  return { ...verification, skewMs, inWindow: !expired && Math.abs(skewMs) <= toleranceMs };
}

/**
 * The answer to a challenge of the vendor, or undefined for any other request.
 * @param signature undefined for a request whose signature was refused
 * @throws SignatureRejection, and the error of a handshake of the application
 */
export function handshakeAnswer(
  { handshake }: Provider,
  request: WebhookRequest,
  secrets: readonly string[],
  signature: VerifiedSignature | undefined,
): Answer | undefined | Promise<Answer | undefined> {
  if (handshake === undefined || !handshake.methods.includes(request.method)) return undefined;
  const verified = signature?.inWindow === true;
  // Some answers are made with the secret, and the vendor knows the one that it signed with: while secrets are rotated, that may be
  // any of them.
  const known = verified ? secrets[signature.secret] : undefined;
  const inOrder = known === undefined ? secrets : [known, ...secrets.filter((secret) => secret !== known)];
  // Without a secret there is nothing to answer a challenge with; but the handshake itself may be what brings the secret.
  const answer = secrets.length > 0 ? handshake.answer(request, inOrder, verified) : undefined;
  return answer ?? handshake.perform?.(request, inOrder, verified);
}

/** Methods that a source's route serves. */
export function methodsOf(source: Source): string[] {
  return [
    ...new Set([...(source.provider.methods ?? ['POST']), ...(source.provider.handshake?.methods ?? [])]),
  ];
}

/** Most bytes of a body. A method that only a handshake has, such as GET, brings none. */
export function maxBytesOf({ provider, maxBytes }: Source, method: string): number {
  return (provider.methods ?? ['POST']).includes(method) ? maxBytes : 0;
}

export function outsideWindow(source: Source, skewMs: number | undefined): SignatureRejection {
  const skew = skewMs ?? 0;
  const seconds = Math.abs(skew) < 10_000 ? Math.abs(skew) / 1000 : Math.round(Math.abs(skew) / 1000);
  const where = `${seconds} s in the ${skew > 0 ? 'past' : 'future'}`;
  return new SignatureRejection(
    'outside-window',
    `the signature is right, but its time is ${where} and source '${source.name}' allows ${(source.toleranceMs ?? 0) / 1000} s: ` +
      `a replay, or a clock that is off`,
  );
}

async function secretsOf(
  source: Source,
  secretsFor: Extract<Source['secrets'], (...args: never[]) => unknown>,
  request: WebhookRequest,
  timeoutMs: number,
): Promise<{ secrets: readonly string[]; tenant: string }> {
  const name = `the secrets function of source '${source.name}'`;
  const ask = async () => (await outcomeOf(() => secretsFor(request), name)) as TenantSecrets;
  const found = await withTimeLimit(ask(), timeoutMs, name);
  const { secrets, tenant } = 'secrets' in found ? found : { secrets: found, tenant: undefined };
  if (secrets.length > 0) checkSecrets(source.provider, secrets, `sources.${source.name}`);
  return { secrets, tenant: tenant === undefined ? '' : eventId(tenant, 'the tenant') };
}

function unknownSecret(source: Source): SignatureRejection {
  return new SignatureRejection(
    'unusable-key',
    `the secrets function of source '${source.name}' returned no secret for this request`,
  );
}

/** A provider of the application may throw any error. A request that is not verified is rejected. */
function rejectionOf(error: unknown): SignatureRejection {
  if (error instanceof SignatureRejection) return error;
  return new SignatureRejection('unusable-key', `verification failed: ${errorText(error)}`, { cause: error });
}

/** Of the secrets used last: a function may know as many as there are tenants. */
const fingerprints = new Map<string, string>();
const MAX_FINGERPRINTS = 1_000;

/** Distinguishes secrets in a table without revealing them: 24 bits of a hash. */
export function fingerprint(secret: string): string {
  let known = fingerprints.get(secret);
  if (known === undefined) {
    if (fingerprints.size >= MAX_FINGERPRINTS) fingerprints.clear();
    known = createHash('sha256').update(`webhook-inbox:${secret}`).digest('hex').slice(0, 6);
    fingerprints.set(secret, known);
  }
  return known;
}
