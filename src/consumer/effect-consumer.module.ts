import {
  Inject,
  Injectable,
  Module,
  type BeforeApplicationShutdown,
  type DynamicModule,
  type FactoryProvider,
  type ModuleMetadata,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import type { DataSource } from 'typeorm';
import { ConfigurationError } from '../core/errors.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { errorText, logLine } from '../core/log/log.js';
import { neutral } from '../core/neutral.js';
import { didYouMean } from '../core/options/did-you-mean.js';
import type { Subscription } from '../core/options/effect-transport.js';
import { endsWithin, sleep } from '../core/time/waits.js';
import { DecoratedProviders } from '../handlers/decorated.providers.js';
import { EffectExplorer } from '../handlers/effect.explorer.js';
import { refuseUnkept } from '../handlers/engine-routes.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { ConsumedStore } from '../storage/engine/consumed.store.js';
import { hearErrors, onConnection, poolSize } from '../storage/postgres/connection.js';
import { dataSourceProvider } from '../storage/schema/data-source.provider.js';
import { fixSchema } from '../storage/schema/own-schema.js';
import { resolveConsumer, type EffectConsumerOptions, type ResolvedConsumer } from './consumer.options.js';
import { ConsumerRuns } from './consumer.runs.js';
import { CONSUMER_DATA_SOURCE, CONSUMER_OPTIONS } from './consumer.tokens.js';

const AGAIN_MS = 5_000;
/** An engine that does not answer is not waited for. */
const CLOSE_MS = 2_000;
const PRUNE_EVERY_MS = 3_600_000;
const PRUNE_ROWS = 1_000;
const PRUNE_MS = 30_000;
const CONCURRENCY = 20;
/** Connections of the pool that are left to the application. */
const POOL_RESERVE = 2;

/** Options that Nest needs before any factory has run. */
export interface EffectConsumerExtras {
  /**
   * Name of the TypeORM DataSource in which the consumer notes the effects that are done. `false`: none, so that an effect may be called twice
   * under one key. @default the unnamed one
   */
  readonly dataSource?: string | false;
}

/** Options of `EffectConsumerModule.forRootAsync`. */
export interface EffectConsumerAsyncOptions
  extends
    EffectConsumerExtras,
    Pick<ModuleMetadata, 'imports'>,
    Pick<FactoryProvider<EffectConsumerOptions>, 'inject'> {
  /** Returns the options of the module. */
  readonly useFactory: FactoryProvider<EffectConsumerOptions>['useFactory'];
}

/** Takes effects from an engine, after the bootstrap of every module and until the first is destroyed, as the relay does. */
@Injectable()
export class EffectConsumer
  implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown
{
  private readonly logger = new InboxLogger();
  private readonly stopped = new AbortController();
  private subscription: Subscription | undefined;
  private pruning: NodeJS.Timeout | undefined;

  constructor(
    modules: ModulesContainer,
    @Inject(CONSUMER_OPTIONS) private readonly options: ResolvedConsumer,
    @Inject(CONSUMER_DATA_SOURCE) private readonly dataSource: DataSource | undefined,
    private readonly explorer: EffectExplorer,
    private readonly registry: HandlerRegistry,
    private readonly runs: ConsumerRuns,
    private readonly store: ConsumedStore,
  ) {
    for (const module of modules.values()) {
      if (module.metatype === EffectConsumerModule) module.distance = -1;
    }
  }

  /** @throws ConfigurationError for an effect that no method has, or an option that a consumer cannot keep */
  onModuleInit(): void {
    const all = this.explorer.explore();
    const { effects, transport } = this.options;
    for (const name of effects ?? []) {
      if (all.some((one) => one.name === name)) continue;
      const hint = didYouMean(
        name,
        all.map((one) => one.name),
      );
      throw new ConfigurationError(
        `EffectConsumerModule options: effects: no method has @OnEffect('${name}')${hint}`,
      );
    }
    for (const effect of all) {
      if (effects !== undefined && !effects.includes(effect.name)) continue;
      refuseUnkept(effect, transport);
      this.registry.addEffect(effect);
    }
    if (this.registry.effects().size === 0) {
      throw new ConfigurationError(
        'EffectConsumerModule has no effect to take: expected a provider with an @OnEffect method',
      );
    }
    if (this.dataSource === undefined) return;
    fixSchema(this.dataSource);
    hearErrors(this.dataSource);
  }

  onApplicationBootstrap(): void {
    neutral(() => void this.begin());
  }

  async onModuleDestroy(): Promise<void> {
    this.stopped.abort();
    clearInterval(this.pruning);
    await this.subscription?.close(this.options.graceMs);
  }

  async beforeApplicationShutdown(): Promise<void> {
    await endsWithin(this.options.transport.close(), CLOSE_MS);
  }

  private async begin(): Promise<void> {
    const { signal } = this.stopped;
    if (this.dataSource !== undefined) {
      void this.prune();
      this.pruning = setInterval(() => void this.prune(), PRUNE_EVERY_MS).unref();
    }
    while (!signal.aborted) {
      try {
        await this.subscribe();
        return;
      } catch (error) {
        const { name } = this.options.transport;
        this.logger.warn(logLine(`effects are not taken from ${name} yet: ${errorText(error)}`, {}));
        await sleep(AGAIN_MS, signal);
      }
    }
  }

  private async subscribe(): Promise<void> {
    const { transport, concurrency = this.mostAtOnce } = this.options;
    const names = [...this.registry.effects().keys()];
    const subscription = await transport.consume(
      names,
      (message, delivery) => neutral(() => this.runs.handle(message, delivery)),
      { concurrency },
    );
    if (this.stopped.signal.aborted) await subscription.close(0);
    else this.subscription = subscription;
  }

  private get mostAtOnce(): number {
    if (this.dataSource === undefined) return CONCURRENCY;
    return Math.max(1, Math.min(CONCURRENCY, poolSize(this.dataSource) - POOL_RESERVE));
  }

  private async prune(): Promise<void> {
    const { keepMs } = this.options;
    try {
      for (let count = PRUNE_ROWS; count === PRUNE_ROWS && !this.stopped.signal.aborted;)
        count = await onConnection(
          this.dataSource!,
          (manager) => this.store.prune(manager, keepMs, PRUNE_ROWS),
          PRUNE_MS,
        );
    } catch (error) {
      this.logger.warn(logLine(`records of done effects could not be pruned: ${errorText(error)}`, {}));
    }
  }
}

/**
 * Runs `@OnEffect` methods for the effects that `WebhooksModule`, in this or another application, hands to an engine. Import it in the root
 * module, once for each engine.
 */
@Module({})
export class EffectConsumerModule {
  /** The module with its options. @throws ConfigurationError for a wrong option, at boot */
  static forRoot(options: EffectConsumerOptions & EffectConsumerExtras): DynamicModule {
    const { dataSource, ...rest } = options;
    return compose(dataSource, { provide: CONSUMER_OPTIONS, useFactory: () => resolveConsumer(rest) });
  }

  /** The same, with options from a factory. */
  static forRootAsync({
    dataSource,
    imports,
    inject = [],
    useFactory,
  }: EffectConsumerAsyncOptions): DynamicModule {
    const options: FactoryProvider = {
      provide: CONSUMER_OPTIONS,
      inject,
      useFactory: async (...args: unknown[]) => resolveConsumer(await useFactory(...(args as never[]))),
    };
    return compose(dataSource, options, imports);
  }
}

function compose(
  dataSource: string | false | undefined,
  options: Provider,
  imports: ModuleMetadata['imports'] = [],
): DynamicModule {
  return {
    module: EffectConsumerModule,
    imports: [DiscoveryModule, ...imports],
    providers: [
      options,
      dataSource === false
        ? { provide: CONSUMER_DATA_SOURCE, useFactory: () => undefined }
        : dataSourceProvider(dataSource, CONSUMER_DATA_SOURCE, 'EffectConsumerModule'),
      ConsumedStore,
      ConsumerRuns,
      DecoratedProviders,
      EffectConsumer,
      EffectExplorer,
      HandlerRegistry,
    ],
  };
}
