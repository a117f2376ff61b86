import type { Provider } from '../../src/core/provider.js';
import type { WebhookRequest } from '../../src/core/request.js';
import { judged, type VerifiedSignature } from '../../src/inbox/delivery.verifier.js';

/**
 * Checks a signature as `DeliveryVerifier` does: first the MAC, then the window.
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
