import { asciiJson, compactJson, isDeeper, spacedJson } from './json-spelling.js';

/** The same content as other software would have written it. */
export interface BodyVariant {
  readonly what: string;
  /** Undefined where it would be too large to be made. */
  readonly bytes: Buffer | undefined;
}

/** Bodies that are nested deeper are not written as other JSON: an indented line repeats its depth. */
const MAX_DEPTH = 64;
/** Longest variant in bytes: this many times the body, and a page more. Anyone can send a body. */
const MAX_GROWTH = 4;
const PAGE = 4_096;

/** Gives another spelling of a text, or undefined where it would be longer than `limit` bytes. */
type Writer = (text: string, limit: number) => Buffer | undefined;
type Writers = readonly (readonly [what: string, write: Writer])[];

/**
 * How the bytes may have been before something rewrote them. A proxy, a gateway or a body parser that reads JSON and writes it
 * again keeps the meaning and loses the bytes, and with them the signature. Each is measured before it is made.
 */
export function* bodyVariants(body: Buffer): Generator<BodyVariant> {
  const text = body.toString('utf8');
  const made = [body];
  yield* written(LINES, text, made);
  if (isDeeper(body, MAX_DEPTH)) {
    yield { what: `as other JSON, since it is nested more than ${MAX_DEPTH} deep`, bytes: undefined };
    return;
  }
  const compact = compactJson(text);
  if (compact !== undefined) yield* written(JSONS, compact, made);
}

/** Each once: JSON without slashes and beyond-ASCII characters is the same for several writers. */
function* written(writers: Writers, text: string, made: Buffer[]): Generator<BodyVariant> {
  const [body] = made;
  for (const [what, write] of writers) {
    const bytes = write(text, body!.length * MAX_GROWTH + PAGE);
    if (bytes !== undefined && made.some((one) => one.equals(bytes))) continue;
    if (bytes !== undefined) made.push(bytes);
    yield { what, bytes };
  }
}

const plain: Writer = (text, limit) => (Buffer.byteLength(text) > limit ? undefined : Buffer.from(text));
const slashed: Writer = (text, limit) => plain(text.replaceAll('/', '\\/'), limit);
const inAscii =
  (write: Writer): Writer =>
  (text, limit) => {
    const ascii = asciiJson(text, limit);
    return ascii === undefined ? undefined : write(ascii, limit);
  };

const LINES: Writers = [
  ['without the white space around it', (text, limit) => plain(text.trim(), limit)],
  ['with a line break at its end', (text, limit) => plain(`${text}\n`, limit)],
  [
    'with line breaks of the other kind',
    (text, limit) =>
      plain(text.includes('\r\n') ? text.replaceAll('\r\n', '\n') : text.replaceAll('\n', '\r\n'), limit),
  ],
];

const JSONS: Writers = [
  ['as compact JSON', plain],
  ['as compact JSON with a line break at its end', (text, limit) => plain(`${text}\n`, limit)],
  ['as JSON with spaces after colons and commas (as Python writes it)', spacedJson],
  ['as compact JSON in ASCII only', inAscii(plain)],
  ['as JSON with spaces, in ASCII only (as Python writes it)', inAscii(spacedJson)],
  ['as compact JSON with escaped slashes (as PHP writes it)', slashed],
  ['as compact JSON in ASCII only with escaped slashes (as PHP writes it)', inAscii(slashed)],
  ['as JSON indented by 2', (text, limit) => spacedJson(text, limit, 2)],
  ['as JSON indented by 4', (text, limit) => spacedJson(text, limit, 4)],
];
