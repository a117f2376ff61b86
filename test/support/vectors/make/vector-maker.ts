import { NOW } from '../../signers/index.js';
import type { Vector } from '../vector.js';

/** What is to be judged, and how. */
export interface Case {
  readonly name: string;
  readonly request: Pick<Vector, 'headers' | 'body'>;
  readonly expect: Vector['expect'];
  readonly why: string;
  /** Parameters that differ from those of the provider's other vectors. */
  readonly parameters?: Partial<Vector>;
}

/** Numbers the vectors of one provider. */
export function vectorMaker(
  provider: string,
  origin: string,
  parameters: Partial<Vector>,
): (one: Case) => Vector & { why: string } {
  let count = 0;
  return ({ name, request, expect, why, parameters: own }) => ({
    id: `${provider}-${origin}-${++count}`,
    provider,
    name,
    ...parameters,
    ...own,
    ...request,
    now: NOW,
    expect,
    why,
  });
}
