import { sqlStateOf } from '../classify.js';

/** Conditions as PostgreSQL's manual names them, of the classes whose messages quote values. */
const CONDITIONS: Readonly<Record<string, string>> = {
  '22001': 'a text is too long for its column',
  '22003': 'a number is out of range',
  '22007': 'a text is no date or time',
  '22008': 'a date or time is out of range',
  '22012': 'division by zero',
  '22021': 'a character is not in the encoding',
  '22023': 'a parameter has an invalid value',
  '22P02': 'a text is no value of its type',
  '22P05': 'a character cannot be stored',
  '23502': 'a value is missing (not null)',
  '23503': 'a foreign key is violated',
  '23505': 'a unique key is violated',
  '23514': 'a check is violated',
  '23P01': 'an exclusion is violated',
  '42601': 'a syntax error',
  '42804': 'types do not match',
  '42P18': 'the type of a parameter is not known',
  P0001: 'raised by a function or a trigger',
};

/**
 * Classes and codes whose messages the server words itself, about connections, locks, resources and names in the statement. All others
 * may quote a value: `invalid input syntax for type integer: "4242…"`.
 */
const TOLD =
  /^(?:08|25|26|28|3D|40|53|54|55|57|58)|^(?:22012|42P01|42P02|42P05|42P07|42703|42704|42883|42501)$/;
const MAX_CAUSES = 5;

/** Messages of the JavaScript engine and of Node that repeat a value. Only the part before the value is used. */
const ENGINE = [
  /^(Cannot convert) .* to a BigInt$/s,
  /^(The number) .* cannot be converted to a BigInt/s,
  /^(Invalid (?:currency code|time zone specified|count value|language tag|regular expression)) ?:/,
  /^(Cannot use 'in' operator to search) for /,
  /^(Cannot create property) /,
  /^(Iterator value) .* is not an entry object$/s,
  /^(Value) .* out of range for /s,
  /^(Failed to parse URL) from /,
  /^(Unknown encoding): /,
  /^(Headers\.\w+): .* is an invalid header/s,
  /^(The "[\w.]+" (?:argument|property) .{1,200}?)\. Received /s,
  /^(The value of "[\w.]+" is out of range\. It must be .{1,200}?)\. Received /s,
  /^(Cannot (?:read|set) properties of (?:undefined|null)) \(/,
  /^(Cannot (?:assign to read only|add|delete|redefine|define|set|destructure) property)[ :]/,
  /^(Unhandled error\.)/,
  /^(Unexpected (?:identifier|token|string|number)) /,
  /^(Converting circular structure to JSON)/,
  /^(Invalid unit argument for [\w.]+\(\)) /,
  /^'.*' (is not a valid HTTP method)\.$/s,
  /^((?:Object prototype may only be an Object or null|Property description must be an object)): /,
  /^('\w+' on proxy: trap returned \w+) for property /,
  /^(Class extends value) .* is not a constructor or null$/s,
  /^(Iterator result) .* is not an object$/s,
  /^(?:boolean|number|string|bigint|symbol) .* (is not iterable) \(cannot read property/s,
  /.* (could not be cloned)\.$/s,
  /^(Request cannot be constructed from a URL that includes credentials): /,
  /^(Command failed): /,
  /^([\w.]+ constructor): .* is not an accepted type\. /s,
  /".*" (performance mark has not been set)$/s,
  /^(Function\.prototype\.apply was called on) .*, which is /s,
  /^(Got unwanted (?:exception|rejection)|ifError got unwanted exception)\b/,
];

/** Of the engine's own functions: these repeat nothing. A function that refuses a value with other words may repeat it. */
const PLAIN = new Set([
  'Invalid time value',
  'Invalid date',
  'Invalid array length',
  'Invalid string length',
  'Maximum call stack size exceeded',
  'Reduce of empty array with no initial value',
  'Cannot convert undefined or null to object',
  'Cannot convert a Symbol value to a string',
  'Cannot convert object to primitive value',
  'Do not know how to serialize a BigInt',
  'URI malformed',
  'Division by zero',
  'undefined is not a function',
]);
/** A frame without a file, such as `Array.reduce (<anonymous>)`. */
const NATIVE_FRAME = /^ +at (?:async )?(?:new )?([\w.$]+)(?: \[as [^\]]+\])? \(<anonymous>\)$/;

/** Of Node: `ERR_INVALID_ARG_VALUE`. Libraries have such codes too, on classes of their own. */
const NODE_CODE = /^ERR_[A-Z0-9_]+$/;
const NATIVE_NAMES = new Set(['TypeError', 'RangeError', 'SyntaxError', 'ReferenceError', 'URIError']);

/**
 * An error's message without values of payloads. A message of PostgreSQL is replaced by its code, table, column and constraint, in any
 * language of the server. An application's message that repeats the message of its cause is treated the same way.
 */
export function withoutValues(error: Error): string {
  const own = ownWords(error);
  if (own !== undefined) return own;
  let text = messageOf(error);
  let cause: unknown = error.cause;
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth += 1, cause = cause.cause) {
    const message = messageOf(cause);
    const words = message === '' ? undefined : ownWords(cause);
    if (words !== undefined) text = text.replaceAll(message, () => words);
  }
  return text;
}

/** A class of the application may put anything there. */
function messageOf({ message }: { readonly message: unknown }): string {
  return String(message);
}

/** Undefined for an error whose message is its thrower's own. */
function ownWords(error: Error): string | undefined {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) return databaseWords(error, sqlState);
  // `Unexpected token 'c', "card=4242…" is not valid JSON`
  if (error.name === 'SyntaxError' && /JSON/.test(error.message)) return 'the text is no JSON';
  // TypeORM prints the criteria, or the entity, that it was given.
  if (error.name === 'EntityNotFoundError') return error.message.replace(/ matching: [^]*$/, '');
  if (error.name === 'CannotCreateEntityIdMapError') return 'the given entity id is not one of its entity';
  return engineWords(messageOf(error)) ?? nodeWords(error) ?? builtInWords(error);
}

interface NodeError extends Error {
  readonly code?: unknown;
  readonly path?: unknown;
  readonly syscall?: unknown;
  readonly operator?: unknown;
  readonly generatedMessage?: unknown;
}

/** Node's own errors have a code, and those of its file system a path, which may come from a payload. */
function nodeWords({
  name,
  code,
  path,
  syscall,
  message,
  operator,
  generatedMessage,
}: NodeError): string | undefined {
  if (typeof code !== 'string') return undefined;
  // The application's own words are not generated.
  if (code === 'ERR_ASSERTION')
    return generatedMessage === false ? undefined : `an assertion failed (${String(operator)})`;
  if (NODE_CODE.test(code) && (name === 'Error' || NATIVE_NAMES.has(name)))
    return `${code} (the message may repeat a value)`;
  // `ENOENT: no such file or directory, open '/a'`, and `spawn /a ENOENT`, whose syscall repeats the path too.
  if (typeof path === 'string' && typeof syscall === 'string') {
    const begin = / '/.test(message) ? message.split(" '", 1)[0]! : `${code}: ${syscall.split(' ', 1)[0]!}`;
    return `${begin} (the rest repeats a path)`;
  }
  return undefined;
}

/** Of an error that a function of the engine has thrown, such as `[].reduce('4242')`. No list of its messages is complete. */
function builtInWords(error: Error): string | undefined {
  const message = messageOf(error);
  if (!NATIVE_NAMES.has(error.name) || PLAIN.has(message)) return undefined;
  const name = NATIVE_FRAME.exec(topFrame(error, message))?.[1];
  return name === undefined ? undefined : `${name}() refused a value (the message may repeat it)`;
}

/** An application may make stacks of its own, of any kind, and its code may fail. */
function topFrame(error: Error, message: string): string {
  try {
    const { stack = '' } = error;
    const told = stack.indexOf(message);
    return stack.slice(told < 0 ? 0 : told + message.length).split('\n', 2)[1] ?? '';
  } catch {
    return '';
  }
}

function engineWords(message: string): string | undefined {
  for (const pattern of ENGINE) {
    const begin = pattern.exec(message)?.[1];
    if (begin !== undefined) return `${begin} (the rest repeats a value)`;
  }
  return undefined;
}

function databaseWords(error: Error, sqlState: string): string {
  const driver = 'driverError' in error ? Object(error.driverError) : error;
  const facts = driver as Readonly<Record<string, unknown>>;
  const isRaised = facts['routine'] === 'exec_stmt_raise';
  if (TOLD.test(sqlState) && !isRaised) return error.message;
  const condition = CONDITIONS[isRaised ? 'P0001' : sqlState] ?? 'the database refused the statement';
  const named = ['table', 'column', 'constraint', 'dataType']
    .filter((name) => !isRaised && typeof facts[name] === 'string')
    .map((name) => `, ${name === 'dataType' ? 'type' : name} ${String(facts[name])}`);
  return `${condition} (SQLSTATE ${sqlState}${named.join('')})`;
}
