import { sdkAccepts, sdkVerifiers } from '../../sdk/verifiers.js';
import { vectorSource } from '../vector-source.js';
import type { Vector } from '../vector.js';
import { requestOf } from '../verdict.js';

/**
 * The vectors with the verdict of the vendor's SDK, where it has one that verifies; ours stays beside it where it differs. The clock
 * must stand at NOW.
 * @throws Error when an SDK refuses what it signed itself, or what is as its vendor documents it
 */
export async function withSdkVerdicts(vectors: readonly Vector[]): Promise<Vector[]> {
  return Promise.all(
    vectors.map(async (vector) => {
      const verifier = sdkVerifiers[vector.provider];
      if (verifier === undefined || vector.variant === 'challenge') return vector;
      const [secret = ''] = vectorSource(vector).secrets as readonly string[];
      const accepts = await sdkAccepts(verifier, requestOf(vector), Object.keys(vector.headers), secret);
      const verdict = accepts ? 'valid' : 'invalid';
      if (verdict === vector.expect) return vector;
      if (vector.expect === 'valid' && isGenuine(vector))
        throw new Error(`${vector.id}: the vendor's SDK refuses a request that is as documented`);
      return { ...vector, expect: verdict, strict: vector.expect } satisfies Vector;
    }),
  );
}

function isGenuine({ id, name }: Vector): boolean {
  return id.includes('-sdk-') || name === 'as documented';
}
