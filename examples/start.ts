import { randomInt } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { leaveFaults } from './demo/faults.js';
import { tour } from './demo/tour.js';
import { DASHBOARD_PATH } from './receiver/dashboard.js';
import { readSettings } from './receiver/settings.js';
import { Random } from './sender/random.js';
import { faults, isClean, report } from './sender/report.js';
import { Sender } from './sender/sender.js';
import { Sink } from './sender/sink.js';
import { curlCommands } from './support/curl.commands.js';
import { freePort } from './support/free.port.js';
import { startPostgres } from './support/postgres.js';
import { ReceiverProcess } from './support/receiver.process.js';

const USAGE = `npm start -- [--once] [--seed <number>]

Starts PostgreSQL (or uses DATABASE_URL), the example receiver and a sender that plays GitHub, Shopify, Stripe and a sender of
Standard Webhooks, and tells what became of every event.

  --once  end after the table, with code 1 when anything was lost, doubled or wrongly answered
  --seed  repeat the choices of an earlier run

Environment: PORT (3000 when free), DATABASE_URL, HTTP_ADAPTER=express|fastify`;

const FAIL_FIRST_PERCENT = 10;

/** What has to be stopped at the end, last started first. */
const started: { stop(): Promise<void> | void }[] = [];

function keep<T extends { stop(): Promise<void> | void }>(startedOne: T): T {
  started.unshift(startedOne);
  return startedOne;
}

/** @returns the exit code, or waits for a signal to end it when the receiver is to stay up */
async function run(once: boolean, seed: number): Promise<number> {
  const say = (line: string) => console.log(line);
  const settings = readSettings({ ...process.env, WEBHOOK_SOURCES_FILE: '' });
  const postgres = keep(await startPostgres());
  const sink = keep(await Sink.start());
  const port = await freePort(settings.port);
  const origin = `http://127.0.0.1:${port}`;
  // A folder of its own: in a shared one, the log of another user's run could neither be written nor replaced.
  const logFile = join(await mkdtemp(join(tmpdir(), 'webhook-receiver-')), 'receiver.log');
  const receiver = keep(new ReceiverProcess(logFile));
  const environment = {
    DATABASE_URL: postgres.url,
    EFFECT_URL: sink.url,
    FAIL_FIRST_PERCENT: String(FAIL_FIRST_PERCENT),
    WEBHOOK_SOURCES_FILE: '',
  };
  await receiver.start(port, { ...environment, DEMO_RELEASE: '1' });
  say(`The receiver serves ${origin}/webhooks/:source and logs to ${logFile}. Seed: ${seed}`);
  if (!once) say(`Look at it work: ${origin}/${DASHBOARD_PATH}`);

  const sender = new Sender(origin, postgres.url, sink, new Random(seed), showProgress);
  const outcome = await Promise.race([sender.run(), receiver.failed()]);
  showProgress('');
  say(report(outcome));
  for (const fault of faults(outcome)) say(fault);
  if (once) return isClean(outcome) ? 0 : 1;

  await Promise.race([leaveFaults(origin, postgres.url), receiver.failed()]);
  await receiver.stop();
  await receiver.start(port, { ...environment, DEMO_RELEASE: '2' });
  const desk = `${origin}/${DASHBOARD_PATH}`;
  say(`\nThe receiver stays up until Ctrl-C. Try it:\n\n${curlCommands(origin)}\n\n${tour(desk)}\n`);
  return receiver.failed();
}

/** One line that is written over, on a terminal; elsewhere a line of its own each time. */
function showProgress(line: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${line}`);
  else if (line !== '') console.log(line);
}

function readArguments(): { once: boolean; seed: number } {
  const { values } = parseArgs({
    options: { once: { type: 'boolean' }, seed: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const seed = Number(values.seed ?? randomInt(1_000_000));
  if (!Number.isInteger(seed))
    throw new TypeError(`--seed: expected a whole number, received '${values.seed}'`);
  return { once: values.once ?? false, seed };
}

/** Ends with the signal, at once and whatever is under way. */
const interrupted = new Promise<number>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => resolve(0));
});

let code = 1;
try {
  const { once, seed } = readArguments();
  code = await Promise.race([run(once, seed), interrupted]);
} catch (error) {
  showProgress('');
  console.error(error instanceof Error ? error.message : error);
}
for (const one of started) await one.stop();
process.exit(code);
