import { hostileBodies } from './requests.js';

/** JSON values of about a size in bytes that cost a careless reader most. */
const hostileValues: Readonly<Record<string, (size: number) => string>> = {
  'an unsafe number': () => '9007199254740993',
  'endless digits': (size) => '9'.repeat(size),
  'a long text': (size) => `"${'a'.repeat(size)}"`,
  base64: (size) => `"${'QUJD'.repeat(size / 4)}"`,
  separators: (size) => `"${'|&,;:.= '.repeat(size / 8)}"`,
  'nested arrays': (size) => '['.repeat(size / 2) + ']'.repeat(size / 2),
  'nested objects': (size) => '{"a":'.repeat(size / 6) + '1' + '}'.repeat(size / 6),
  'many texts': (size) => `[${'"",'.repeat(size / 3)}""]`,
  'many objects': (size) => `[${'{},'.repeat(size / 3)}{}]`,
  'many unsafe numbers': (size) => `[${'9007199254740993,'.repeat(size / 17)}0]`,
  'numbers for names': (size) =>
    `{${Array.from({ length: size / 12 }, (_, i) => `"${i * 4096}":0`).join(',')}}`,
};

/** A form's fields of about a size in bytes. */
const hostileFields: Readonly<Record<string, (size: number) => string>> = {
  'empty fields': (size) => '&'.repeat(size),
  'names alone': (size) => 'a&'.repeat(size / 2),
  'many names': (size) => Array.from({ length: size / 6 }, (_, i) => i.toString(36)).join('&'),
  'many values': (size) => Array.from({ length: size / 8 }, (_, i) => `a=${i.toString(36)}`).join('&'),
  'long value': (size) => `a=${'b'.repeat(size)}`,
  escapes: (size) => `a=${'%7C'.repeat(size / 3)}`,
  plus: (size) => `a=${'+'.repeat(size)}`,
};

/** Bodies of at least a size that are nothing of the vendor's. */
export function hostileShapes(size: number): [shape: string, body: Buffer][] {
  return Object.entries({ ...hostileBodies, ...hostileFields }).map(([shape, make]) => [
    shape,
    Buffer.from(make(size)),
  ]);
}

/** Changes to a genuine header's value, each up to the 16 kB that Node takes. */
export const hostileChanges: Readonly<Record<string, (value: string) => string>> = {
  'as it is': (value) => value,
  'many by comma': (value) => repeated(value, ',', 4_000),
  'many by space': (value) => repeated(value, ' ', 4_000),
  'many by semicolon': (value) => repeated(value, ';', 16_000),
  'many by dot': (value) => repeated(value, '.', 8_000),
  long: (value) => value + 'a'.repeat(16_000),
};

function repeated(value: string, separator: string, size: number): string {
  return Array.from({ length: Math.max(1, size / (value.length + 1)) }, () => value).join(separator);
}

/**
 * Bodies of at least a size that pass for the vendor's as far as a reader can tell before it believes them: the genuine one with
 * something hostile beside its members, or in the place of one of them.
 */
export function* hostileVersions(genuine: Buffer, size: number): Generator<[shape: string, body: Buffer]> {
  const text = genuine.toString();
  const json = parsed(text);
  yield* json === undefined ? formVersions(text, size) : jsonVersions(json, size);
}

function* formVersions(text: string, size: number): Generator<[string, Buffer]> {
  for (const [shape, make] of Object.entries(hostileFields)) {
    yield [`form and ${shape}`, Buffer.from(`${text}&${make(size)}`)];
    yield [`${shape} and form`, Buffer.from(`${make(size)}&${text}`)];
  }
  for (const name of new URLSearchParams(text).keys()) {
    for (const one of ['%7C', '%26', 'QUJD', '1']) {
      const form = new URLSearchParams(text);
      form.set(name, 'HOSTILE');
      const value = one.repeat(size / one.length);
      yield [`${name} of ${one}`, Buffer.from(form.toString().replace('HOSTILE', () => value))];
    }
  }
}

function* jsonVersions(json: object, size: number): Generator<[string, Buffer]> {
  const members = Object.entries(json).map(
    ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
  );
  const whole = members.join(',');
  yield ['members again and again', Buffer.from(`{${`${whole},`.repeat(size / whole.length)}${whole}}`)];
  for (const [shape, make] of Object.entries(hostileValues)) {
    const value = make(size);
    yield [`${shape} beside`, Buffer.from(`{${whole},"beside":${value}}`)];
    for (const path of size > 300_000 ? [] : pathsOf(json))
      yield [`${shape} at ${path.join('.')}`, Buffer.from(withValue(json, path, value, size))];
  }
  for (const path of pathsOf(json)) {
    const items = path.reduce((value: unknown, name) => (value as Record<string, unknown>)[name], json);
    if (!Array.isArray(items)) continue;
    const item = JSON.stringify(items[0]);
    for (const one of [item, '0', '[]'])
      yield [
        `items ${one.slice(0, 20)}`,
        Buffer.from(withValue(json, path, `[${`${one},`.repeat(size / one.length)}0]`, 0)),
      ];
  }
  yield ['unsafe numbers everywhere', Buffer.from(everywhere(json, '9007199254740993', size))];
}

/** The body with other text in one place, and padding beside it where that leaves it short. */
function withValue(json: object, path: readonly string[], value: string, size: number): string {
  const copy = structuredClone(json);
  const parent = path.slice(0, -1).reduce((at: unknown, name) => (at as Record<string, unknown>)[name], copy);
  (parent as Record<string, unknown>)[path.at(-1)!] = 'HOSTILE';
  return padded(
    JSON.stringify(copy).replace('"HOSTILE"', () => value),
    size,
  );
}

function everywhere(json: object, value: string, size: number): string {
  const text = JSON.stringify(json, (_, one: unknown) => (typeof one === 'object' ? one : 'HOSTILE'));
  return padded(text.replaceAll('"HOSTILE"', value), size);
}

/** In the innermost object that stands last, so that whatever is read of that object is as long. */
function padded(text: string, size: number): string {
  if (text.length >= size) return text;
  const at = text.lastIndexOf(text.includes('}}]}') ? '}}]}' : '}');
  return `${text.slice(0, at)},"pad":[${'[0],'.repeat((size - text.length) / 4)}0]${text.slice(at)}`;
}

function pathsOf(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, below]) => {
    const at = [...path, name];
    return [at, ...pathsOf(below, at)];
  });
}

function parsed(text: string): object | undefined {
  try {
    return Object(JSON.parse(text)) as object;
  } catch {
    return undefined;
  }
}
