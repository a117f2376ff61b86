import { PermanentError } from './errors.js';

/** What is used of a Standard Schema (zod, valibot, arktype, …). @see https://standardschema.dev */
export interface StandardSchema<TOutput = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    validate(value: unknown): StandardResult<TOutput> | Promise<StandardResult<TOutput>>;
  };
}
export type StandardResult<TOutput> =
  { readonly value: TOutput; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] };
interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A payload is not what the handler's `schema` says. Permanent: the bytes will not change. */
export class SchemaMismatch extends PermanentError {}

/** @throws SchemaMismatch naming the paths, never the values */
export async function validated(schema: StandardSchema, payload: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(payload);
  if (result.issues === undefined) return result.value;
  const lines = result.issues.slice(0, 5).map((issue) => `${pathOf(issue) || 'payload'}: ${issue.message}`);
  throw new SchemaMismatch(`the payload does not match the handler's schema: ${lines.join('; ')}`);
}

function pathOf({ path = [] }: StandardIssue): string {
  return path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
}
