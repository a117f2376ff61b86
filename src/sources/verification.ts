import type { Provider, Verification } from '../core/provider.js';
import type { WebhookRequest } from '../core/request.js';

export interface VerifiedSignature extends Verification {
  /** How far the signed time lies from now in milliseconds: positive in the past, negative in the future. Undefined when no time is signed. */
  readonly skewMs?: number;
  /** False when that is more than the tolerance: a replay, or a clock that is off. */
  readonly inWindow: boolean;
}

/**
 * The one way to check a signature: first the MAC, then the window, so that a clock error is distinguished from a forgery.
 * @param toleranceMs milliseconds both ways, inclusive; undefined when the scheme signs no time
 * @param nowMs milliseconds since 1970
 * @throws SignatureRejection
 */
export async function verifySignature(
  provider: Provider,
  request: WebhookRequest,
  secrets: readonly string[],
  toleranceMs: number | undefined,
  nowMs: number,
): Promise<VerifiedSignature> {
  return judged(await provider.verify(request, secrets), toleranceMs, nowMs);
}

/** The window, once the MAC was right. */
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
