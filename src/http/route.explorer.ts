import { Inject, Injectable, RequestMethod } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { ConfigurationError } from '../core/errors.js';
import { configuredSource } from '../core/options/known-source.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ClassNames } from '../handlers/class-names.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { originOf } from '../handlers/origin.js';
import { OWN_ANSWER_INDEX, useWebhookOf, type UseWebhookMetadata } from './use-webhook.metadata.js';

/** Keys of Nest's route argument metadata are `paramtype:index`; 1 is @Res(), 2 is @Next(). */
const ROUTE_ARGS = '__routeArguments__';
const RESPONSE = '1';
const NEXT = '2';

/** The full name of a route's handler. */
export function routeName(metadata: UseWebhookMetadata, controller: string, method: string): string {
  return `${metadata.source}/${metadata.name ?? `${controller}.${method}`}`;
}

/** Checks the application's routes with `@UseWebhook` and registers them. */
@Injectable()
export class RouteExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly registry: HandlerRegistry,
    private readonly classNames: ClassNames,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** @throws ConfigurationError naming the route and the remedy */
  explore(): void {
    for (const wrapper of this.discovery.getControllers()) {
      const { metatype } = wrapper;
      if (typeof metatype !== 'function') continue;
      const prototype = metatype.prototype as Record<string, (...args: never[]) => unknown>;
      for (const name of this.scanner.getAllMethodNames(prototype)) {
        const metadata = useWebhookOf(prototype[name]!);
        if (metadata !== undefined) this.register(wrapper, metatype, prototype[name]!, name, metadata);
      }
    }
  }

  private register(
    wrapper: InstanceWrapper,
    controller: { readonly name: string },
    method: (...args: never[]) => unknown,
    name: string,
    metadata: UseWebhookMetadata,
  ): void {
    const at = `${controller.name}.${name} @UseWebhook('${metadata.source}')`;
    configuredSource(this.options, metadata.source, at);
    if (Reflect.getMetadata('method', method) === RequestMethod.GET) {
      throw new ConfigurationError(
        `${at}: expected a route for the method the provider sends, received @Get()`,
      );
    }
    const args = Object.keys((Reflect.getMetadata(ROUTE_ARGS, controller, name) as object | undefined) ?? {});
    if (
      args.some(
        (arg) =>
          [RESPONSE, NEXT].includes(arg.split(':')[0]!) && arg.split(':')[1] !== String(OWN_ANSWER_INDEX),
      )
    ) {
      throw new ConfigurationError(
        `${at}: expected no @Res() and no @Next(), since the answer is written after the commit; return the result summary instead`,
      );
    }
    if (metadata.name === undefined) this.classNames.check(controller.name, at);
    this.registry.addRoute({
      source: metadata.source,
      name: routeName(metadata, controller.name, name),
      origin: originOf(wrapper, method, at),
    });
  }
}
