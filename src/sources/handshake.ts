import type { Answer } from '../core/answer.js';
import type { Provider } from '../core/provider.js';
import type { WebhookRequest } from '../core/request.js';
import type { VerifiedSignature } from './verification.js';

/**
 * The answer to a challenge of the vendor, or undefined for any other request.
 * @param signature the result of `verifySignature`; undefined when it refused the request
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
