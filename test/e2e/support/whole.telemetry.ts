// OpenTelemetry as an application sets it up: before anything that it instruments is loaded.
import { createRequire } from 'node:module';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';

export const spans = new InMemorySpanExporter();

const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
trace.setGlobalTracerProvider(tracerProvider);
registerInstrumentations({
  tracerProvider,
  instrumentations: [
    new HttpInstrumentation(),
    new PgInstrumentation({ addSqlCommenterCommentToQueries: true }),
  ],
});

// Modules of Node and CommonJS are patched when something requires them; an import alone is not seen.
const require = createRequire(import.meta.url);
for (const name of ['node:http', 'http', 'pg']) require(name);
