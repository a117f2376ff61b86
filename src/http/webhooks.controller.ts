import {
  All,
  Controller,
  HttpCode,
  Req,
  Res,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  VERSION_NEUTRAL,
  applyDecorators,
  type Type,
} from '@nestjs/common';
import { z } from 'zod';
import { NotInOpenApi } from '../core/not-in-openapi.js';
import { check } from '../core/options/schema.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';
import { AnswerFilter } from './answer.filter.js';
import { WEBHOOKS_CONTROLLER } from './controller.metadata.js';
import { nodeRequest, stateOf, type AdapterRequest } from './delivery-state.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { SignatureGuard } from './signature.guard.js';
import { SourceUrls } from './source-urls.js';

/** Options of the module's own route. Static, since Nest fixes routes before `useFactory` has run. */
export interface ControllerOptions {
  /** @default 'webhooks' */
  readonly path?: string;
  /** Decorators for the controller class, such as the application's `@Public()`. */
  readonly decorators?: readonly ClassDecorator[];
  /**
   * Whether the route is served before Nest's pipeline, where the application has nothing in it: no global guard or interceptor, no
   * middleware, no hook. With something in it, or with `decorators`, it never is. @default true
   */
  readonly direct?: boolean;
}

export function mayBeDirect({ decorators = [], direct = true }: ControllerOptions): boolean {
  return direct && decorators.length === 0;
}

const optionsSchema = z.strictObject({
  path: z
    .string()
    .refine((path) => !/[:*{(]/.test(path), {
      error: 'expected a path without parameters: `/:source` is put behind it',
    })
    .optional(),
  decorators: z
    .array(z.custom((value) => typeof value === 'function', { error: 'expected a decorator' }))
    .optional(),
  direct: z.boolean().optional(),
});

/**
 * `POST /webhooks/:source`. All methods are routed here, so that a wrong one is answered 405 and not 404.
 * @throws ConfigurationError
 */
export function webhooksController(options: ControllerOptions): Type {
  check(optionsSchema, options, 'WebhooksModule controller');
  const { path = 'webhooks', decorators = [] } = options;
  @Controller({ path, version: VERSION_NEUTRAL })
  @SetMetadata(WEBHOOKS_CONTROLLER, true)
  @NotInOpenApi()
  @UseGuards(SignatureGuard)
  @UseInterceptors(IdempotencyInterceptor)
  @UseFilters(AnswerFilter)
  class WebhooksController {
    constructor(
      private readonly dispatcher: EventDispatcher,
      private readonly registry: HandlerRegistry,
      private readonly urls: SourceUrls,
    ) {}

    /** @Res() keeps Nest from answering: the interceptor does, with bytes that nothing wraps. */
    @All(':source')
    @HttpCode(200)
    async receive(@Req() request: AdapterRequest, @Res() _response: unknown): Promise<void> {
      const state = stateOf(nodeRequest(request))!;
      // A handshake never comes here: the interceptor answers it.
      if (state.verified.kind !== 'delivery') return;
      if (this.registry.hasOnlyRoutes(state.source.name)) this.urls.warnOfOwnRoute(state.source.name);
      state.verdict = await this.dispatcher.dispatch(state.verified.delivery);
    }
  }
  applyDecorators(...decorators)(WebhooksController);
  return WebhooksController;
}
