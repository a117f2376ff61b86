import type { CanActivate, ExecutionContext, ModuleMetadata, Type } from '@nestjs/common';
import { z } from 'zod';
import { ConfigurationError } from '../core/errors.js';
import { check } from '../core/options/schema.js';
import type { Allow } from '../effects/http-client.js';

/** Injection token of the dashboard's resolved options. */
export const DASHBOARD = Symbol('webhook-inbox:dashboard');

/** Actions of a person, given to `can`. */
export const DASHBOARD_ACTIONS = [
  'view',
  'reveal',
  'revive',
  'give-up',
  'issue',
  'verify-again',
  'replay',
  'forward',
  'park',
  'decide',
  'cancel',
  'erase',
  'pause',
] as const;
/** An action that `can` allows or refuses. */
export type DashboardAction = (typeof DASHBOARD_ACTIONS)[number];

/**
 * The scope of an action or a read. Without `tenant`: the source as a whole. Without `source`: everything, such as the overview, the
 * relays, the audit, or an effect that may come from any source.
 */
export interface DashboardScope {
  readonly source?: string;
  /** '' for a source without tenants. */
  readonly tenant?: string;
}

/** Options of `WebhooksDashboardModule.forRoot`. */
export interface DashboardOptions {
  /** Where page and API are mounted, under the application's global prefix. @default 'webhooks-desk' */
  readonly path?: string;
  /** The application's own guards; every request passes them, those for scripts and styles too. */
  readonly guards?: readonly (Type<CanActivate> | CanActivate)[];
  /** Modules that give the guards what they inject. */
  readonly imports?: ModuleMetadata['imports'];
  /** No action but looking. @default false */
  readonly readOnly?: boolean;
  /**
   * Bodies of events and payloads of effects. `hidden`: never sent. `reveal`: at a click, which leaves an audit row.
   * `shown`: with the event.
   * @default 'reveal'
   */
  readonly payloads?: 'hidden' | 'reveal' | 'shown';
  /** Where events may be forwarded to beside https to public addresses; not offered at all with `payloads: 'hidden'`. @default { } */
  readonly forward?: Allow;
  /**
   * Asked before each action, after the guards, for each source and tenant that the action concerns. Lists leave out the rows for
   * which `view` is refused.
   * @default everything that the guards let through
   */
  readonly can?: (
    action: DashboardAction,
    context: ExecutionContext,
    scope: DashboardScope,
  ) => boolean | Promise<boolean>;
  /** Your login page: an http(s) URL or a path. The page links to it when a session has ended. @default no link */
  readonly signInUrl?: string;
  /**
   * Where a line of the application's code is shown, such as `https://github.com/acme/shop/blob/main/{file}#L{line}`. `{file}` is the
   * path below the working directory of this process.
   * @default no link
   */
  readonly sourceLink?: string;
  /** The name that stands in the audit. @default what the request's `user` is called: email, username, name, sub or id */
  readonly actor?: (context: ExecutionContext) => string | undefined;
  /** Mounts it without a guard. Anyone who reaches the port sees everything. For a developer's own machine. @default false */
  readonly allowUnauthenticated?: boolean;
}

/** The options with every default filled in. */
export interface ResolvedDashboard {
  readonly path: string;
  readonly readOnly: boolean;
  readonly payloads: 'hidden' | 'reveal' | 'shown';
  readonly forward: Allow;
  readonly can: NonNullable<DashboardOptions['can']>;
  readonly actor: NonNullable<DashboardOptions['actor']>;
  readonly unauthenticated: boolean;
  readonly signInUrl?: string;
  readonly sourceLink?: string;
}

const isFunction = (value: unknown) => typeof value === 'function';
const schema = z.strictObject({
  path: z
    .string()
    .regex(/^[\w-]+(?:\/[\w-]+)*$/, {
      error: `expected a path such as 'admin/webhooks', without slashes around it`,
    })
    .optional(),
  guards: z.array(z.unknown()).optional(),
  imports: z.array(z.unknown()).optional(),
  readOnly: z.boolean().optional(),
  payloads: z.enum(['hidden', 'reveal', 'shown']).optional(),
  forward: z
    .strictObject({
      http: z.boolean().optional(),
      privateAddresses: z.union([z.boolean(), z.array(z.string())]).optional(),
    })
    .optional(),
  signInUrl: z
    .string()
    .regex(/^(?:https?:\/\/|\/(?!\/))/, {
      error: 'expected an http(s) URL, or a path that begins with one slash',
    })
    .optional(),
  sourceLink: z
    .string()
    .regex(/^https?:\/\/.*\{file\}/, {
      error: `expected an http(s) URL with {file}, and {line} where it takes one`,
    })
    .optional(),
  can: z.custom(isFunction, { error: 'expected a function' }).optional(),
  actor: z.custom(isFunction, { error: 'expected a function' }).optional(),
  allowUnauthenticated: z.boolean().optional(),
});

/** @throws ConfigurationError for a wrong option, and without a guard, in any environment */
export function resolveDashboard(options: DashboardOptions): ResolvedDashboard {
  check(schema, options, 'WebhooksDashboardModule options');
  const guards = options.guards ?? [];
  if (guards.length === 0 && options.allowUnauthenticated !== true) {
    throw new ConfigurationError(
      `WebhooksDashboardModule options.guards: expected at least one guard of the application, received none. The dashboard shows ` +
        `your customers' events and can run them again. On a developer's own machine: allowUnauthenticated: true`,
    );
  }
  return {
    path: options.path ?? 'webhooks-desk',
    readOnly: options.readOnly ?? false,
    payloads: options.payloads ?? 'reveal',
    forward: options.forward ?? {},
    can: options.can ?? (() => true),
    actor: options.actor ?? userOf,
    unauthenticated: guards.length === 0,
    ...(options.signInUrl === undefined ? {} : { signInUrl: options.signInUrl }),
    ...(options.sourceLink === undefined ? {} : { sourceLink: options.sourceLink }),
  };
}

function userOf(context: ExecutionContext): string | undefined {
  const { user } = context.switchToHttp().getRequest<{ user?: Readonly<Record<string, unknown>> | string }>();
  if (typeof user !== 'object') return user;
  for (const name of ['email', 'username', 'name', 'sub', 'id']) {
    const value = user?.[name];
    if (typeof value === 'string' || typeof value === 'number') return String(value);
  }
  return undefined;
}
