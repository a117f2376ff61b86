/** Makes a value of the text that PostgreSQL sends for it. */
type Parser = (text: string) => unknown;

const ISO_TIME =
  /^(?<year>\d{4,})-(?<rest>\d\d-\d\d) (?<time>\d\d:\d\d:\d\d)(?<fraction>\.\d+)?(?<zone>[+-]\d\d(?::\d\d)?(?::\d\d)?)(?<bc> BC)?$/;

/** An instant, under any TimeZone. Milliseconds are what a Date holds. */
function instant(text: string): unknown {
  if (text === 'infinity') return Infinity;
  if (text === '-infinity') return -Infinity;
  const { year, rest, time, fraction = '', zone, bc } = ISO_TIME.exec(text)?.groups ?? {};
  if (zone === undefined) return new Date(text);
  const local = new Date(`2000-${rest}T${time}${fraction.slice(0, 4).padEnd(fraction === '' ? 0 : 4, '0')}Z`);
  local.setUTCFullYear(
    bc === undefined ? Number(year) : 1 - Number(year),
    local.getUTCMonth(),
    local.getUTCDate(),
  );
  const [hours = 0, minutes = 0, seconds = 0] = zone.slice(1).split(':').map(Number);
  const ahead = (hours * 3_600 + minutes * 60 + seconds) * (zone.startsWith('-') ? -1_000 : 1_000);
  return new Date(local.getTime() - ahead);
}

/** Whether bytea_output is `hex` or `escape`. */
function bytes(text: string): Buffer {
  if (text.startsWith('\\x')) return Buffer.from(text.slice(2), 'hex');
  const plain = text.replaceAll(/\\(\\|[0-3][0-7]{2})/g, (_, escaped: string) =>
    escaped === '\\' ? '\\' : String.fromCharCode(Number.parseInt(escaped, 8)),
  );
  return Buffer.from(plain, 'latin1');
}

/** One dimension, as all arrays of ours have. */
function list(of: Parser): Parser {
  const ELEMENT = /"(?<quoted>(?:[^"\\]|\\[^])*)"|(?<plain>[^,{}"]+)/g;
  return (text) =>
    Array.from(text.matchAll(ELEMENT), ({ groups: { quoted, plain } = {} }) => {
      if (quoted !== undefined) return of(quoted.replaceAll(/\\([^])/g, '$1'));
      return plain === 'NULL' ? null : of(plain!);
    });
}

const asText: Parser = (text) => text;
const integer: Parser = (text) => Number.parseInt(text, 10);
const float: Parser = (text) => Number.parseFloat(text);
const json: Parser = (text) => JSON.parse(text) as unknown;

/** By the number of the type in PostgreSQL's catalogue, which is the same on every server; any other is text. */
const PARSERS = new Map<number, Parser>([
  [16, (text) => text === 't'],
  [17, bytes],
  [21, integer],
  [23, integer],
  [26, integer],
  [114, json],
  [700, float],
  [701, float],
  [1000, list((text) => text === 't')],
  [1001, list(bytes)],
  [1005, list(integer)],
  [1007, list(integer)],
  [1009, list(asText)],
  [1015, list(asText)],
  [1016, list(asText)],
  [1184, instant],
  [1185, list(instant)],
  [2951, list(asText)],
  [3802, json],
]);

/**
 * How values that this package reads are parsed. The application may have changed pg's parsers (`pg.types.setTypeParser`, the pool's
 * `types`), for the whole process: an instant would come as text, or as a class of its own.
 */
export const OWN_TYPES = { getTypeParser: (oid: number): Parser => PARSERS.get(oid) ?? asText };
