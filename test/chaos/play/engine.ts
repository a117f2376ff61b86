import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../../examples/sender/random.js';
import type { Engine } from '../../support/engines.js';
import type { TcpProxy } from '../../support/tcp-proxy.js';
import { waitUntil } from '../support/sleep-until.js';
import type { Fleet } from './fleet.js';
import type { Provider } from './provider.js';

/** What was done to whom. */
export interface EngineDeeds {
  relaysKilled: number;
  consumersKilled: number;
  consumersFrozen: number;
  brokerKilled: number;
  networkCut: number;
}

const OPEN = 60;
const EVENT_EVERY_MS = 20;
/** A short run has each deed at least so often. */
const ROUNDS = 3;
const DEEDS = ['relay', 'consumer', 'broker', 'frozen', 'cut'] as const;
const UP = 1;
const START_MS = 120_000;
const BETWEEN_MS = 1_000;
/** Longer than an engine waits for the sign of life of a consumer. */
const FROZEN_MS = 7_000;
/** Longer than clients wait for an answer of the engine. */
const CUT_MS = 12_000;

/**
 * Events flow while relays and consumers are killed, consumers are frozen, the broker is killed and started again, and the network between
 * all of them and the broker is cut for a while.
 */
export async function engineFaults(setup: {
  readonly relays: Fleet;
  readonly consumers: Fleet;
  readonly engine: Engine;
  readonly network: TcpProxy;
  readonly provider: Provider;
  readonly seed: number;
  readonly say: (line: string) => void;
}): Promise<EngineDeeds> {
  const { relays, consumers, engine, network, provider, seed, say } = setup;
  const random = new Random(seed);
  const told = { relaysKilled: 0, consumersKilled: 0, consumersFrozen: 0, brokerKilled: 0, networkCut: 0 };
  const over = new AbortController();
  const flowing = flow(provider, over, () => Object.values(told).reduce((sum, count) => sum + count, 0));
  for (let n = 0; !over.signal.aborted; n += 1) {
    for (const fleet of [relays, consumers])
      await waitUntil(() => fleet.up.length > UP, START_MS, 'processes did not come back');
    const deed = DEEDS[n % DEEDS.length]!;
    if (deed === 'relay') {
      await random.pick(relays.up).kill();
      told.relaysKilled += 1;
    } else if (deed === 'consumer') {
      await random.pick(consumers.up).kill();
      told.consumersKilled += 1;
    } else if (deed === 'frozen') {
      const frozen = random.pick(consumers.up);
      frozen.freeze();
      await sleep(FROZEN_MS);
      frozen.goOn();
      told.consumersFrozen += 1;
    } else if (deed === 'cut') {
      network.silence();
      await sleep(CUT_MS);
      network.goOn();
      told.networkCut += 1;
    } else {
      await engine.kill();
      await sleep(random.int(100, 2_000));
      await engine.start();
      told.brokerKilled += 1;
      say(
        `${provider.acknowledged} of ${provider.sent + provider.left} events; the broker was killed ${told.brokerKilled} times`,
      );
    }
    await sleep(BETWEEN_MS);
  }
  await flowing;
  await provider.finished();
  await Promise.all([relays.allUp(), consumers.allUp()]);
  return told;
}

/** On a fast machine events wait for deeds: all of them flow beside some. */
async function flow(provider: Provider, over: AbortController, done: () => number): Promise<void> {
  const all = provider.left;
  while (provider.left > 0) {
    const share = (done() + 1) / (ROUNDS * DEEDS.length);
    const room = Math.min(OPEN - provider.open, share * all - provider.sent);
    if (room > 0) provider.release(provider.sent + Math.ceil(room));
    await sleep(EVENT_EVERY_MS);
  }
  over.abort();
}
