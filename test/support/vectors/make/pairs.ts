import type { Vector } from '../vector.js';
import type { vectorMaker } from './vector-maker.js';

/** Bodies that a parser would write otherwise. */
export const BODIES = [
  '{"id":"evt_1","type":"thing.made"}',
  '{ "id" : "evt_1" , "n":1.0 }\r\n',
  '{"t":"héllo ✓ 日本語 😀 \u2028 <b>&amp;</b>"}',
  '{"a":"\\u00e9\\/"}',
];

/** Each body with the headers that a vendor's SDK makes for it, and with those of the next. */
export async function pairs(
  make: ReturnType<typeof vectorMaker>,
  headersOf: (body: string) => Vector['headers'] | Promise<Vector['headers']>,
  bodies: readonly string[] = BODIES,
  parametersOf: (body: string) => Partial<Vector> = () => ({}),
): Promise<Vector[]> {
  const headers = await Promise.all(bodies.map(async (body) => headersOf(body)));
  return bodies.flatMap((body, i) => [
    make({
      name: `body ${JSON.stringify(body)}`,
      request: { headers: headers[i]!, body },
      expect: 'valid',
      why: 'signed by the SDK',
      parameters: parametersOf(body),
    }),
    make({
      name: `body ${JSON.stringify(body)}, signature of another`,
      request: { headers: headers[(i + 1) % bodies.length]!, body },
      expect: 'invalid',
      why: 'tampered',
      parameters: parametersOf(body),
    }),
  ]);
}
