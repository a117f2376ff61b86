import { z } from 'zod';
import { ConfigurationError } from '../core/errors.js';
import { check, duration, headerName } from '../core/options/schema.js';
import type { EventFields } from './events/event-fields.js';
import type { SenderRetryOptions } from './retry-options.js';

/** A schema for each of the options, so that the compiler asks for a new one's. */
type ValuesOf<T> = Readonly<Record<keyof T, z.ZodType>>;

/**
 * Options may come from plain JavaScript or a JSON file. A value that no request can match would refuse every delivery.
 * @param values schemas of the options to check; unknown names are refused elsewhere
 * @throws ConfigurationError
 */
export function checkValues(provider: string, options: object, values: z.ZodRawShape): void {
  check(z.object(values), options, provider);
}

// Functions, so that an application that uses none of them gets none of them bundled.
const names = () => z.union([headerName, z.array(headerName).min(1)]).optional();
const paths = () => z.union([z.string(), z.array(z.string()).min(1)]).optional();

export const eventFieldValues = () =>
  ({
    idHeader: names(),
    idPath: paths(),
    typeHeader: names(),
    typePath: paths(),
    timePath: z.string().optional(),
    eventsPath: z.string().optional(),
  }) satisfies ValuesOf<EventFields>;

export const retryValues = () =>
  ({
    retriesAutomatically: z.boolean().optional(),
    retryWindow: duration.optional(),
    manualResendWindow: duration.optional(),
    retriesSameBytes: z.boolean().optional(),
    retriesChange: z.array(z.string().min(1)).optional(),
    retriesSameTimestamp: z.boolean().optional(),
  }) satisfies ValuesOf<SenderRetryOptions>;

/**
 * A header is the same for every event of one body: all but the first would be duplicates of it.
 * @throws ConfigurationError
 */
export function refuseSharedId(
  who: string,
  { idHeader, eventsPath, dedupe = 'preset' }: EventFields & { readonly dedupe?: unknown },
): void {
  if (idHeader === undefined || eventsPath === undefined || dedupe !== 'preset') return;
  throw new ConfigurationError(
    `${who}.idHeader: expected idPath or dedupe with eventsPath, received a header, which is the same for every event of one body`,
  );
}

/** A name that can stand before an option's in the message about it. */
export function nameOr(fallback: string, { name }: { readonly name?: unknown }): string {
  return typeof name === 'string' ? name : fallback;
}
