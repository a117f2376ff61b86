import { BodyReader, parseJson } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { eachMember, hasParts, keyText, rootOf, type ByteRange } from '../../core/json/json-ranges.js';

/** Most names of a body that are written with escapes. No vendor writes one so. */
const MAX_ESCAPED = 100;

/** Stands for an array or an object, which no vendor signs as a field. */
const PARTS = Object.freeze({});

/**
 * Some fields of a JSON body that must be read before it is verified, since they hold its signature. One pass over the bytes of each object
 * finds them, at any depth of nesting. A parser takes 60 MB for 500,000 levels.
 */
export class UnbelievedJson {
  private readonly found = new Map<number, ReadonlyMap<string, ByteRange>>();
  private readonly shortest: number;
  private readonly longest: number;
  private escaped = 0;

  /** @param names of members that are asked for, at any level */
  constructor(
    readonly bytes: Buffer,
    private readonly names: ReadonlySet<string>,
  ) {
    const lengths = [...names].map(({ length }) => length);
    this.shortest = Math.min(...lengths);
    this.longest = Math.max(...lengths);
  }

  /** The text, number, boolean or null at a dotted path; an object where it is something else, undefined where there is nothing. */
  at(path: string): unknown {
    const range = this.rangeAt(path);
    if (range === undefined) return undefined;
    return hasParts(this.bytes, range) ? PARTS : parseJson(this.bytes.subarray(...range));
  }

  rangeAt(path: string): ByteRange | undefined {
    let value: ByteRange | undefined = rootOf(this.bytes);
    for (const name of path.split('.')) value = value && this.membersOf(value).get(name);
    return value;
  }

  private membersOf(value: ByteRange): ReadonlyMap<string, ByteRange> {
    let members = this.found.get(value[0]);
    if (members === undefined) {
      members = new Map(this.wanted(value));
      this.found.set(value[0], members);
    }
    return members;
  }

  private *wanted(value: ByteRange): Generator<[name: string, value: ByteRange]> {
    const nameOf = (start: number, end: number) => this.nameOf(start, end);
    for (const member of eachMember(this.bytes, value, nameOf)) if (this.names.has(member[0])) yield member;
  }

  /** The name of a member, or '' of one that has not the length of a name that is asked for. Each character may be written with six. */
  private nameOf(start: number, end: number): string {
    const length = end - start - 2;
    if (length < this.shortest || length > 6 * this.longest) return '';
    if (!hasEscape(this.bytes, start, end))
      return length > this.longest ? '' : this.bytes.toString('utf8', start + 1, end - 1);
    this.escaped += 1;
    if (this.escaped > MAX_ESCAPED)
      throw new SignatureRejection(
        'malformed-signature',
        `the body has more than ${MAX_ESCAPED} escaped names`,
      );
    return keyText(this.bytes, start, end);
  }
}

function hasEscape(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) if (bytes[at] === BACKSLASH) return true;
  return false;
}

/**
 * Of a body whose fields were signed: now it may be parsed as a whole.
 * @throws SignatureRejection when it is no JSON, where fields may be read in two ways
 */
export function checkJson(bytes: Buffer): void {
  if (new BodyReader(bytes).json() === undefined)
    throw new SignatureRejection(
      'malformed-signature',
      'the body is no JSON, and the signature stands in it',
    );
}

/**
 * The values of some fields of a form that must be read before it is verified. Of each field it reads the first two, since a repeated field
 * is refused. Only the fields that may be asked for are decoded: a million of them cost URLSearchParams 600 ms and 100 MB.
 * @throws SignatureRejection when too many names are written with escapes
 */
export function unbelievedFields<Name extends string>(
  bytes: Buffer,
  names: readonly Name[],
): Readonly<Record<Name, string[]>> {
  const values = Object.fromEntries(names.map((name) => [name, [] as string[]])) as Record<Name, string[]>;
  const lengths = names.map(({ length }) => length);
  const [shortest, longest] = [Math.min(...lengths), Math.max(...lengths)];
  let escaped = 0;
  for (let start = 0, end: number; start < bytes.length; start = end + 1) {
    end = indexOrEnd(bytes.indexOf(AMPERSAND, start), bytes.length);
    if (end - start < shortest) continue;
    // Each character of a name may be written with three.
    const nameEnd = nameEndOf(bytes, start, Math.min(end, start + 3 * longest + 1));
    if (nameEnd - start < shortest || nameEnd - start > 3 * longest) continue;
    const name = bytes.toString('latin1', start, nameEnd);
    const isEscaped = name.includes('%') || name.includes('+');
    if (!isEscaped && !names.some((one) => one === name)) continue;
    escaped += isEscaped ? 1 : 0;
    if (escaped > MAX_ESCAPED)
      throw new SignatureRejection(
        'malformed-signature',
        `the form has more than ${MAX_ESCAPED} escaped names`,
      );
    const [[decoded, value] = ['', '']] = new URLSearchParams(bytes.toString('utf8', start, end));
    const found = names.find((one) => one === decoded);
    if (found !== undefined && values[found].length < 2) values[found].push(value);
  }
  return values;
}

const BACKSLASH = 0x5c;
const AMPERSAND = 0x26;
const EQUALS = 0x3d;
const indexOrEnd = (index: number, end: number) => (index < 0 ? end : index);

/** Where the name of the field that starts there ends, looked for up to `end`. */
function nameEndOf(bytes: Buffer, start: number, end: number): number {
  let at = start;
  while (at < end && bytes[at] !== EQUALS) at += 1;
  return at;
}

/** A text, or a whole number as its digits. No vendor signs other numbers, and their digits would take a slow parser. */
export function signedTextAt(body: Pick<UnbelievedJson, 'at'>, path: string): string | undefined {
  const value = body.at(path);
  if (typeof value === 'string') return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
