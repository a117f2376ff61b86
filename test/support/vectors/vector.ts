import { readFileSync } from 'node:fs';

/** One request with its verdict, in the format that `npm run vectors` reads. */
export interface Vector {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  readonly variant?: string;
  readonly method?: string;
  readonly url?: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** UTF-8; or `body_base64`. */
  readonly body?: string;
  readonly body_base64?: string;
  readonly secret?: string;
  /** Any of them may verify. */
  readonly secrets?: readonly string[];
  /** PEM, hex, base64 or a JWK, as the vendor gives it. */
  readonly public_key?: unknown;
  readonly cert_pem?: string;
  readonly webhook_id?: string;
  readonly hash?: string;
  readonly encoding?: string;
  readonly legacy?: boolean;
  readonly challenge?: string;
  /** The exact answer to a challenge. */
  readonly response?: string;
  /** Unix seconds at which to judge. @default now */
  readonly now?: number;
  /** Seconds, where it is not the scheme's default; 0 turns the window off. */
  readonly tolerance?: number;
  readonly expect: 'valid' | 'invalid';
  /** The verdict of a strict reading, where a vendor's SDK is laxer or stricter; it is ours. */
  readonly strict?: 'valid' | 'invalid';
}

export function readVectors(file: string): Vector[] {
  const vectors: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (!Array.isArray(vectors)) throw new Error(`${file}: expected an array of vectors`);
  // A field that is null says as much as one that is absent.
  return (vectors as Vector[]).map(
    (vector) =>
      ({
        headers: {},
        ...Object.fromEntries(Object.entries(vector).filter(([, value]) => value !== null)),
      }) as Vector,
  );
}

export function bodyOf({ body = '', body_base64 }: Vector): Buffer {
  return body_base64 === undefined ? Buffer.from(body, 'utf8') : Buffer.from(body_base64, 'base64');
}

export function expectedVerdict(vector: Vector): 'valid' | 'invalid' {
  return vector.strict ?? vector.expect;
}
