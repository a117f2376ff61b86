import { Module, type DynamicModule, type OnModuleInit, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { Lifecycle } from '../../lifecycle.module.js';
import { DeskKeeper } from '../../operator/desk.keeper.js';

/** Has an `onApplicationBootstrap` that begins work. */
interface Starter {
  onApplicationBootstrap?(): unknown;
}

/**
 * An application that begins nothing by itself: no relay, no signs of life, no reconciler, and none of the host's crons. Its providers
 * are initialised, so that handlers, sources and secrets are known. Nest calls every `onModuleInit` before the first
 * `onApplicationBootstrap`, so that this one comes in time.
 */
@Module({})
export class AtRest implements OnModuleInit {
  constructor(private readonly modules: ModulesContainer) {}

  static around(application: Type | DynamicModule): DynamicModule {
    return { module: AtRest, imports: [application] };
  }

  onModuleInit(): void {
    for (const { providers } of this.modules.values()) {
      const isScheduler = providers.has(SchedulerRegistry);
      for (const { instance, metatype } of providers.values()) {
        const isOurs = metatype === Lifecycle || metatype === DeskKeeper;
        if (instance && (isOurs || isScheduler)) silence(instance);
      }
    }
  }
}

function silence(starter: Starter): void {
  if (typeof starter.onApplicationBootstrap === 'function') starter.onApplicationBootstrap = () => undefined;
}

/** Stops what the application has scheduled by its own code while it started. */
export function stopSchedule(registry: SchedulerRegistry): void {
  for (const job of registry.getCronJobs().values()) void job.stop();
  for (const name of registry.getIntervals()) registry.deleteInterval(name);
  for (const name of registry.getTimeouts()) registry.deleteTimeout(name);
}
