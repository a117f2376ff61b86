import { appendFileSync } from 'node:fs';
import {
  Injectable,
  Module,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { BackfillSource, OnWebhook, WebhooksModule } from '../../../src/index.js';
import { options } from '../database.js';
import { DeskHandlers, deskSources } from '../desk.js';

/** Whatever an application does by itself: the command line must start none of it. */
@Injectable()
class OwnWork implements OnApplicationBootstrap {
  constructor(private readonly schedule: SchedulerRegistry) {}

  onApplicationBootstrap(): void {
    // A careless line, which must not come between a program and its JSON.
    console.log('the application has started');
    this.schedule.addInterval(
      'own',
      setInterval(() => note('interval'), 50),
    );
  }

  @Cron('* * * * * *')
  everySecond(): void {
    note('cron');
  }

  /** The instance of the tests has no such handler. */
  @OnWebhook('awardee', 'only.here')
  only(): void {
    note('handler');
  }

  @BackfillSource('stripe')
  async *list() {
    for (const id of ['evt_listed_1', 'evt_listed_2'])
      yield { body: { id, type: 'invoice.paid', created: Math.floor(Date.now() / 1000) } };
  }
}

/** Has every request take the long way. */
@Injectable()
class Timing implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle();
  }
}

function note(what: string): void {
  if (process.env.OWN_WORK) appendFileSync(process.env.OWN_WORK, `${what}\n`);
}

/** With a window of `RETENTION` where that is given. */
function sources() {
  const { RETENTION: retention } = process.env;
  const { stripe } = deskSources;
  return { ...deskSources, stripe: retention === undefined ? stripe : { ...stripe, retention } };
}

/** What a user builds to dist/app.module.js. */
@Module({
  imports: [
    TypeOrmModule.forRoot({ ...options(process.env.DATABASE_URL!), retryAttempts: 0 }),
    ScheduleModule.forRoot(),
    WebhooksModule.forRoot({ sources: sources() }),
  ],
  providers: [DeskHandlers, OwnWork, { provide: APP_INTERCEPTOR, useClass: Timing }],
})
export class AppModule {}
