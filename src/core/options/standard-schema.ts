import { PermanentError } from '../errors.js';

/**
 * The part of a Standard Schema (zod, valibot, arktype, …) that is used.
 * @see https://standardschema.dev
 */
export interface StandardSchema<TOutput = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    validate(value: unknown): StandardResult<TOutput> | Promise<StandardResult<TOutput>>;
  };
}
/** The output of a Standard Schema, or its mismatches. */
export type StandardResult<TOutput> =
  { readonly value: TOutput; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] };
/** One mismatch that a Standard Schema reports. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A payload is not what the handler's `schema` says. Permanent: the bytes will not change. */
export class SchemaMismatch extends PermanentError {}

/** @throws SchemaMismatch naming the paths, never the values */
export async function validate(schema: StandardSchema, payload: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(payload);
  if (result.issues === undefined) return result.value;
  const lines = result.issues
    .slice(0, 5)
    .map((issue) => `${pathOf(issue) || 'payload'}: ${withoutParts(issue.message, partOf(payload, issue))}`);
  throw new SchemaMismatch(`the payload does not match the handler's schema: ${lines.join('; ')}`);
}

function pathOf(issue: StandardIssue): string {
  return stepsOf(issue).map(String).join('.');
}

function stepsOf({ path = [] }: StandardIssue): PropertyKey[] {
  return path.map((step) => (typeof step === 'object' ? step.key : step));
}

/** The part of the payload that an issue names. */
function partOf(payload: unknown, issue: StandardIssue): unknown {
  let part = payload;
  for (const step of stepsOf(issue)) part = Object(part)[step] as unknown;
  return part;
}

/** Most texts and numbers of a part that are searched for in a message. */
const MAX_LEAVES = 1_000;
/** The length of a longer text that is searched for: some libraries shorten repeated values. */
const HEAD = 8;

/** A library's message without what it repeats of the payload: `Expected number but received "4242…"` (valibot, arktype). */
function withoutParts(message: string, part: unknown): string {
  const open = [part];
  let text = message;
  for (let nth = 0; open.length > 0 && nth < MAX_LEAVES; nth += 1) {
    const one = open.pop();
    if (typeof one === 'object' && one !== null) open.push(...Object.values(one).slice(0, MAX_LEAVES));
    else if (typeof one === 'string' || typeof one === 'number') text = withoutLeaf(text, String(one), part);
  }
  return text;
}

function withoutLeaf(text: string, leaf: string, part: unknown): string {
  if (leaf.length > HEAD) {
    const at = text.indexOf(leaf.slice(0, HEAD));
    return at === -1 ? text : `${text.slice(0, at)}…`;
  }
  // A word of an object's may be one of the message's own.
  if (leaf === '' || (typeof part === 'object' && leaf.length < 3)) return text;
  const letters = leaf.replace(/[^\w\s]/g, '\\$&');
  return text.replace(new RegExp(`(?<!\\w)${letters}(?!\\w)`, 'g'), () => '…');
}
