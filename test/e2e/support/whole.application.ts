// An application with all that applications have beside this package. It runs in a process of its own: instrumentation patches modules.
import 'reflect-metadata';
import { spans } from './whole.telemetry.js';

const { start } = await import('./whole.main.js');
const whole = await start(process.env.ADAPTER as 'express' | 'fastify', process.env.DATABASE_URL!);

process.on('message', (asked) => {
  if (asked === 'report') {
    const told = spans.getFinishedSpans().map((span) => {
      const { name, attributes, instrumentationScope } = span;
      return { name, attributes, scope: instrumentationScope.name, traceId: span.spanContext().traceId };
    });
    process.send!({ spans: told, ...whole.report() });
  } else void whole.app.close().then(() => process.disconnect());
});
process.send!({ origin: await whole.app.getUrl() });
