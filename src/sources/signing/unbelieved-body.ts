import { BodyReader, parseJson } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { eachMember, hasParts, rootOf, type ByteRange } from '../../core/json/json-ranges.js';

/** Stands for an array or an object, which no vendor signs as a field. */
const PARTS = Object.freeze({});

/**
 * Some fields of a JSON body that must be read before it is verified, since they hold its signature. One pass over the bytes of each object
 * finds them, at any depth of nesting. A parser takes 60 MB for 500,000 levels.
 */
export class UnbelievedJson {
  private readonly found = new Map<number, ReadonlyMap<string, ByteRange>>();

  /** @param names of members that are asked for, at any level */
  constructor(
    readonly bytes: Buffer,
    private readonly names: ReadonlySet<string>,
  ) {}

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
    for (const member of eachMember(this.bytes, value)) if (this.names.has(member[0])) yield member;
  }
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
 * is refused. It reads one field at a time: a million of them cost URLSearchParams 600 ms and 100 MB.
 */
export function unbelievedFields<Name extends string>(
  bytes: Buffer,
  names: readonly Name[],
): Readonly<Record<Name, string[]>> {
  const values = Object.fromEntries(names.map((name) => [name, [] as string[]])) as Record<Name, string[]>;
  for (let start = 0; start < bytes.length;) {
    const next = bytes.indexOf('&', start);
    const end = next < 0 ? bytes.length : next;
    const field = fieldOf(bytes.subarray(start, end), names);
    if (field !== undefined && values[field[0]].length < 2) values[field[0]].push(field[1]);
    start = end + 1;
  }
  return values;
}

function fieldOf<Name extends string>(
  field: Buffer,
  names: readonly Name[],
): readonly [name: Name, value: string] | undefined {
  const equals = field.indexOf('=');
  const length = equals < 0 ? field.length : equals;
  // Each character of a name may be written with three.
  const name = names.find((one) => length >= one.length && length <= 3 * one.length);
  if (name === undefined) return undefined;
  const [[decoded, value] = ['', '']] = new URLSearchParams(field.toString('utf8'));
  const found = names.find((one) => one === decoded);
  return found === undefined ? undefined : [found, value];
}

/** A text, or a whole number as its digits. No vendor signs other numbers, and their digits would take a slow parser. */
export function signedTextAt(body: Pick<UnbelievedJson, 'at'>, path: string): string | undefined {
  const value = body.at(path);
  if (typeof value === 'string') return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
