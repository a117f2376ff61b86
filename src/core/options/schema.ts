import { z } from 'zod';
import { didYouMean } from './did-you-mean.js';
import { toMs } from './duration.js';
import { headOf } from '../event.js';
import { ConfigurationError, InputRefused } from '../errors.js';

const DURATION = `expected milliseconds or text such as '30s', '4h', '30d'`;
export const duration = z
  .union([z.number(), z.string()], { error: DURATION })
  .refine((value) => toMs(value) !== undefined, { error: DURATION });

/** A duration above zero. Zero would be a loop without a pause, or a wait that is over before it begins. */
export const positiveDuration = duration.refine((value) => toMs(value) !== 0, {
  error: `expected more than 0 milliseconds`,
});
/** A duration of at least `ms` milliseconds. */
export const atLeast = (ms: number) =>
  duration.refine((value) => (toMs(value) ?? ms) >= ms, { error: `expected at least ${ms} milliseconds` });
export const count = z.int().positive();

/** A name that PostgreSQL keeps whole. */
export const schemaName = z
  .string({ error: 'expected the name of a schema' })
  .refine((name) => name !== '' && Buffer.byteLength(name) <= 63 && !name.includes('\0'), {
    error: 'expected the name of a schema, of 1 to 63 bytes',
  });

/** A token as HTTP has it: a request carries no header of another name. */
export const headerName = z
  .string({ error: 'expected the name of a header' })
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'expected the name of a header' });

/** Any form that PostgreSQL reads as a uuid, so that what it would refuse is refused with the remedy. */
export const OUTBOX_ID = z.guid({ error: 'expected an outbox id (a UUID)' });

/**
 * Checks a value against a strict schema.
 * @throws ConfigurationError with one line for each fault: path, expected, received, and the nearest known key
 */
export function check(schema: z.ZodType, value: unknown, where: string): void {
  const faults = faultsOf(schema, value, where);
  if (faults.length > 0) throw new ConfigurationError(faults.join('\n'));
}

/**
 * As `check`, for what is asked of a service of the running application.
 * @throws InputRefused
 */
export function checkInput(schema: z.ZodType, value: unknown, where: string): void {
  const faults = faultsOf(schema, value, where);
  if (faults.length > 0) throw new InputRefused(faults.join('\n'));
}

function faultsOf(schema: z.ZodType, value: unknown, where: string): string[] {
  const parsed = schema.safeParse(value, { reportInput: true });
  return parsed.success ? [] : parsed.error.issues.map((issue) => describe(issue, schema, where));
}

function describe(issue: z.core.$ZodIssue, schema: z.ZodType, where: string): string {
  const at = [where, ...issue.path.map(String)].join('.');
  if (issue.code === 'unrecognized_keys') {
    const known = keysAt(schema, issue.path);
    return issue.keys.map((key) => `${at}: unknown option '${key}'${didYouMean(key, known)}`).join('\n');
  }
  if (issue.code === 'invalid_union' && issue.message === 'Invalid input') {
    // A value of one alternative's shape is meant as that alternative, and its error lies deeper.
    const meant = issue.errors.find((errors) => errors.every((error) => error.path.length > 0));
    if (meant !== undefined) {
      const inside = (error: z.core.$ZodIssue) => ({ ...error, path: [...issue.path, ...error.path] });
      return meant.map((error) => describe(inside(error), schema, where)).join('\n');
    }
    return `${at}: expected ${issue.errors.flatMap(expectations).join(' or ')}, received ${received(issue.input, at)}`;
  }
  return `${at}: expected ${expectations([issue]).join('')}, received ${received(issue.input, at)}`;
}

/** The expected types that zod names, without 'Invalid input: ' before them and 'received string' behind them. */
function expectations(issues: readonly z.core.$ZodIssue[]): string[] {
  return issues.map(({ message }) =>
    message.replace(/^(?:.*: )?expected /, '').replace(/, received \w+$/, ''),
  );
}

function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let current: unknown = schema;
  for (const name of path) current = objectOf(current)?.shape[String(name)];
  return Object.keys(objectOf(current)?.shape ?? {});
}

function objectOf(schema: unknown): z.ZodObject | undefined {
  if (schema instanceof z.ZodOptional) return objectOf(schema.unwrap());
  if (schema instanceof z.ZodUnion)
    return schema.options.map(objectOf).find((option) => option !== undefined);
  return schema instanceof z.ZodObject ? schema : undefined;
}

/** Options whose value must not stand in an error, wherever that is shown. */
const SECRET = /(secret|passw(or)?d|token|key|credential|dsn|url|connection(string)?)s?(\W\d+\W?)?$/i;

function received(value: unknown, at: string): string {
  if (value === null || ['undefined', 'number', 'boolean'].includes(typeof value)) return String(value);
  if (typeof value === 'string')
    return SECRET.test(at) ? `text of ${value.length} characters` : `'${headOf(value, 60)}'`;
  return Array.isArray(value) ? 'an array' : `a${typeof value === 'object' ? 'n' : ''} ${typeof value}`;
}
