import { AnswerWriter } from './answer.writer.js';
import { BodyIntake } from './body/body-intake.js';
import { ByteBudget } from './body/byte-budget.js';
import { DirectRoute } from './direct/direct.route.js';
import { HostAnswers } from './direct/host-answers.js';
import { HostPipeline } from './direct/host-pipeline.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { OwnEnhancers } from './direct/own-enhancers.js';
import { RawBodyInstaller } from './body/raw-body.installer.js';
import { RouteExplorer } from './route.explorer.js';
import { SignatureGuard } from './signature.guard.js';
import { SourceUrls } from './source-urls.js';
import { WebhookRequests } from './webhook.requests.js';
import { WebhookRoutes } from './webhook.routes.js';

/** The providers of this folder, for the module. */
export const httpProviders = [
  AnswerWriter,
  BodyIntake,
  ByteBudget,
  DirectRoute,
  HostAnswers,
  HostPipeline,
  IdempotencyInterceptor,
  OwnEnhancers,
  RawBodyInstaller,
  RouteExplorer,
  SignatureGuard,
  SourceUrls,
  WebhookRequests,
  WebhookRoutes,
];
