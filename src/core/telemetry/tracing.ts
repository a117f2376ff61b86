import {
  context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Link,
  type Span,
  type SpanContext,
  type SpanKind,
  type Tracer,
} from '@opentelemetry/api';
import { errorText } from '../log/log.js';

/** By which an OpenTelemetry SDK knows what is this package's. */
export const SCOPE = 'nestjs-webhook-inbox';
/** As `@opentelemetry/core` makes it: the instrumentation of http takes the route of its span and of its metrics from there. */
const RPC_METADATA = Symbol.for('OpenTelemetry SDK Context Key RPC_METADATA');
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?: (.{1,512}))?$/;
const MAX_TRACE_STATE = 512;

interface SpanOptions {
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  /** @default that of the calling code */
  readonly parent?: Context;
  readonly links?: readonly Link[];
}

/** Undefined where the application has registered no SDK: then nothing is made for a span. */
function tracer(): Tracer | undefined {
  const provider = trace.getTracerProvider() as {
    getTracer(name: string): Tracer;
    getDelegateTracer?(name: string): Tracer | undefined;
  };
  return provider.getDelegateTracer === undefined
    ? provider.getTracer(SCOPE)
    : provider.getDelegateTracer(SCOPE);
}

/** Runs `code` in a span. Without an SDK it only runs the code. An error is recorded by its text, which holds no value. */
export function inSpan<T>(name: string, options: SpanOptions, code: (span?: Span) => Promise<T>): Promise<T> {
  const made = tracer();
  return made === undefined ? code() : inSpanOf(made, name, options, code);
}

async function inSpanOf<T>(
  made: Tracer,
  name: string,
  { kind, attributes, parent = context.active(), links }: SpanOptions,
  code: (span: Span) => Promise<T>,
): Promise<T> {
  const span = made.startSpan(name, { kind, attributes, links: links && [...links] }, parent);
  try {
    return await context.with(trace.setSpan(parent, span), () => code(span));
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: errorText(error) });
    throw error;
  } finally {
    span.end();
  }
}

/** The trace of the calling code, as a row keeps it: a W3C traceparent and, behind a space, its tracestate. */
export function currentTrace(): string | undefined {
  const spanContext = trace.getSpanContext(context.active());
  if (spanContext === undefined || !isSpanContextValid(spanContext)) return undefined;
  const { spanId, traceFlags, traceState } = spanContext;
  const parent = `00-${spanContext.traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
  const state = traceState?.serialize() ?? '';
  return state === '' || state.length > MAX_TRACE_STATE ? parent : `${parent} ${state}`;
}

/** As `currentTrace`, for work of a row: in a batch, whose span is another trace's, that of the row itself. */
export function traceOf(row: string | undefined): string | undefined {
  const current = currentTrace();
  return row === undefined || traceId(current) === traceId(row) ? (current ?? row) : row;
}

const traceId = (kept: string | undefined) => kept?.slice(3, 35);

/** The context of a trace that a row has kept: without a request's, and without baggage. */
export function contextOf(kept: string | undefined): Context {
  const spanContext = spanContextOf(kept);
  return spanContext === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, spanContext);
}

export function linksTo(kept: readonly (string | undefined)[]): Link[] {
  return kept.flatMap((one) => {
    const spanContext = spanContextOf(one);
    return spanContext === undefined ? [] : [{ context: spanContext }];
  });
}

/** Names the route of the request's own span, which the instrumentation of http made, where no other instrumentation names it. */
export function nameRoute(route: string | undefined): void {
  if (route === undefined) return;
  const active = context.active();
  const rpc = active.getValue(RPC_METADATA) as { route?: string } | undefined;
  if (rpc !== undefined) rpc.route ??= route;
  trace.getSpan(active)?.setAttribute('http.route', rpc?.route ?? route);
}

function spanContextOf(kept: string | undefined): SpanContext | undefined {
  const [, id, spanId, flags, state] = TRACEPARENT.exec(kept ?? '') ?? [];
  if (id === undefined || spanId === undefined) return undefined;
  return {
    traceId: id,
    spanId,
    traceFlags: parseInt(flags!, 16),
    isRemote: true,
    traceState: state === undefined ? undefined : createTraceState(state),
  };
}
