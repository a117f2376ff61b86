import { Inject, Injectable, type Type } from '@nestjs/common';
import {
  EXCEPTION_FILTERS_METADATA,
  GUARDS_METADATA,
  HEADERS_METADATA,
  INTERCEPTORS_METADATA,
  PIPES_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
} from '@nestjs/common/constants.js';
import { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { AnswerFilter } from '../answer.filter.js';
import { MAY_BE_DIRECT, WEBHOOKS_CONTROLLER } from '../controller.metadata.js';
import type { ExpressWay } from './express-way.js';
import { isFastifyClear } from './fastify-way.js';
import { IdempotencyInterceptor } from '../idempotency.interceptor.js';
import { OwnEnhancers } from './own-enhancers.js';
import { SignatureGuard } from '../signature.guard.js';
import type { OwnPath } from '../webhook.routes.js';

/** A part of the long way that the direct one stands for, with its method as it is written: an application may put another there. */
interface Part {
  readonly type: Type;
  readonly method: string;
  readonly original: unknown;
}
const ENHANCERS: readonly Part[] = [
  part(SignatureGuard, 'canActivate'),
  part(IdempotencyInterceptor, 'intercept'),
  part(AnswerFilter, 'catch'),
];

/** The module's controller is decorated with these. */
const ON_CLASS: readonly (readonly [key: string, own: readonly Type[]])[] = [
  [GUARDS_METADATA, [SignatureGuard]],
  [INTERCEPTORS_METADATA, [IdempotencyInterceptor]],
  [EXCEPTION_FILTERS_METADATA, [AnswerFilter]],
  [PIPES_METADATA, []],
];
const NOT_ON_METHOD: readonly string[] = [
  ...ON_CLASS.map(([key]) => key),
  HEADERS_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
];

/** Finds out which parts of the application stand between a request and the module's own route. */
@Injectable()
export class HostPipeline {
  private isNestEmpty: boolean | undefined;
  private parts: readonly (Part & { readonly instance: object })[] | undefined;

  constructor(
    private readonly config: ApplicationConfig,
    private readonly modules: ModulesContainer,
    private readonly enhancers: OwnEnhancers,
    @Inject(MAY_BE_DIRECT) private readonly mayBeDirect: boolean,
  ) {}

  isEmptyOnExpress({ route, path }: OwnPath, way: ExpressWay): boolean {
    return this.isNestClear() && way.isClear(route, path);
  }

  /** @param request of Fastify, whose routes have hooks of their own */
  isEmptyOnFastify(request: object, reply: object): boolean {
    return this.isNestClear() && isFastifyClear(request, reply);
  }

  /** Names of the parts of the application that make requests take its pipeline. Empty where they take the direct route. */
  obstacles(): string[] {
    const { config } = this;
    const named = (kind: string, found: readonly object[]) =>
      found.map((one) => `the global ${kind} ${one.constructor.name}`);
    const global = [
      ...named('guard', [...config.getGlobalGuards(), ...instancesOf(config.getGlobalRequestGuards())]),
      ...named('interceptor', [
        ...config.getGlobalInterceptors(),
        ...instancesOf(config.getGlobalRequestInterceptors()),
      ]),
      ...preRequestHooks(config).map(() => 'a global pre-request hook'),
    ];
    return [
      ...(this.mayBeDirect ? [] : ["decorators, a host or a version of the module's controller"]),
      ...global,
      ...(this.isOurs()
        ? []
        : ["a class or a method in the place of the module's own guard, interceptor or controller"]),
    ];
  }

  /** Nest reads its global enhancers as it makes the routes. Pipes have no parameter of that route to change. */
  private isNestClear(): boolean {
    this.isNestEmpty ??= this.mayBeDirect && !this.hasEnhancers();
    return this.isNestEmpty && this.isOurs();
  }

  private hasEnhancers(): boolean {
    const { config } = this;
    return [
      config.getGlobalGuards(),
      config.getGlobalRequestGuards(),
      config.getGlobalInterceptors(),
      config.getGlobalRequestInterceptors(),
      preRequestHooks(config),
    ].some((enhancers) => enhancers.length > 0);
  }

  /** Whether guard, interceptor, filter and controller are this module's, and not what the application has put in their place. */
  private isOurs(): boolean {
    this.parts ??= this.findParts();
    return (
      this.parts.length > 0 &&
      this.parts.every(({ instance, method, original }) => Reflect.get(instance, method) === original)
    );
  }

  /** None where one of them is not to be found, or is another's. */
  private findParts(): (Part & { instance: object })[] {
    for (const { controllers, injectables } of this.modules.values()) {
      for (const [type, { metatype, instance }] of controllers) {
        if (typeof type !== 'function' || !Reflect.hasMetadata(WEBHOOKS_CONTROLLER, type)) continue;
        // A subclass has the metadata of its parent, and is an application's own.
        if (metatype !== type || !Reflect.hasOwnMetadata(WEBHOOKS_CONTROLLER, type)) return [];
        const found = ENHANCERS.flatMap((one) => {
          const enhancer = injectables.get(one.type)?.instance as object | null | undefined;
          return enhancer ? [{ ...one, instance: enhancer }] : [];
        });
        if (found.length < ENHANCERS.length || isDecorated(type as Type)) return [];
        const all = [...found, { ...part(type as Type, 'receive'), instance }];
        return all.some((one) => this.isReplaced(one)) ? [] : all;
      }
    }
    return [];
  }

  private isReplaced({ instance, type, method }: Part & { readonly instance: object }): boolean {
    return (
      Object.getPrototypeOf(instance) !== type.prototype ||
      this.enhancers.replacementOf(type, method) !== undefined
    );
  }
}

/** Whether the application has put enhancers of its own on the controller or its method, or settings of the answer. */
function isDecorated(controller: Type): boolean {
  const { receive } = controller.prototype as { readonly receive: object };
  const listOf = (key: string) => (Reflect.getMetadata(key, controller) ?? []) as readonly unknown[];
  return (
    ON_CLASS.some(([key, own]) => listOf(key).length !== own.length || listOf(key)[0] !== own[0]) ||
    NOT_ON_METHOD.some((key) => Reflect.hasMetadata(key, receive))
  );
}

function part(type: Type, method: string): Part {
  return { type, method, original: Reflect.get(type.prototype as object, method) };
}

/** Global enhancers with a request's scope are kept as what makes them. */
function instancesOf(wrappers: readonly { readonly metatype?: unknown }[]): object[] {
  return wrappers.map(
    ({ metatype }) => Object(typeof metatype === 'function' ? metatype.prototype : {}) as object,
  );
}

/** Nest 11 has no such hooks. */
function preRequestHooks(config: { getGlobalPreRequestHooks?(): readonly unknown[] }): readonly unknown[] {
  return config.getGlobalPreRequestHooks?.() ?? [];
}
