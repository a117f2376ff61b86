/** Hooks that Fastify runs before the answer is on its way, from those on that read the bytes; how many of them are this module's. */
const LATER_HOOKS = { preParsing: 1, preValidation: 1, preHandler: 0, preSerialization: 0, onSend: 0 };

/** The context that Fastify keeps for a route. */
interface RouteContext extends Readonly<
  Partial<Record<keyof typeof LATER_HOOKS, readonly unknown[] | null>>
> {
  readonly schema?: unknown;
  readonly handlerTimeout?: number;
  readonly server?: object;
}

/** Of a reply: set by a hook, they change the answer. */
const REPLY_SETTINGS = ['fastify.reply.serializer', 'fastify.reply.trailers'];

const clear = new WeakMap<RouteContext, boolean>();

/**
 * Whether the application has nothing between the reader's hook and the route: no hook, no schema, no time limit, and no wrapper that was
 * added with the route. Fastify keeps these to itself, so a missing field counts as an obstacle.
 */
export function isFastifyClear(request: object, reply: object): boolean {
  if (Object.hasOwn(reply, 'send') || REPLY_SETTINGS.some((name) => hidden(reply, name) != null))
    return false;
  const context = hidden<RouteContext>(request, 'fastify.context');
  if (context === undefined) return false;
  let known = clear.get(context);
  if (known === undefined) clear.set(context, (known = isBare(context)));
  return known;
}

function isBare(context: RouteContext): boolean {
  const hooks = hidden<{ readonly onRoute?: readonly unknown[] }>(context.server ?? {}, 'fastify.hooks');
  return (
    Object.entries(LATER_HOOKS).every(([hook, ours]) => {
      const found = context[hook as keyof typeof LATER_HOOKS];
      return found !== undefined && (found?.length ?? 0) === ours;
    }) &&
    (context.schema ?? undefined) === undefined &&
    (context.handlerTimeout ?? 0) === 0 &&
    // The one is this module's.
    hooks?.onRoute?.length === 1
  );
}

function hidden<T extends object>(of: object, description: string): T | undefined {
  for (let at: object | null = of; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const key = Object.getOwnPropertySymbols(at).find((symbol) => symbol.description === description);
    if (key !== undefined) return (of as Record<symbol, T | undefined>)[key];
  }
  return undefined;
}
