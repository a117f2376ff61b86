import { Module, type DynamicModule } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
// In your application: 'nestjs-webhook-inbox/migrations' and 'nestjs-webhook-inbox'.
import { webhookInboxMigrations } from '../../migrations/index.js';
import { github, WebhooksModule } from '../../src/index.js';
import { BotHandlers } from './bot.handlers.js';
import { CommentEffect } from './comment.effect.js';
import { GithubApi } from './github.api.js';
import { Greeted, Greeted1796000004000 } from './greeted.entity.js';

export interface BotSettings {
  readonly databaseUrl: string;
  readonly githubSecret: string;
  /** @example 'https://api.github.com' */
  readonly apiUrl: string;
  readonly apiToken: string;
}

@Module({})
export class BotModule {
  static with({ databaseUrl, githubSecret, apiUrl, apiToken }: BotSettings): DynamicModule {
    return {
      module: BotModule,
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: databaseUrl,
          entities: [Greeted],
          migrations: [...webhookInboxMigrations(), Greeted1796000004000],
          migrationsRun: true,
        }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({ sources: { github: github({ secrets: [githubSecret] }) } }),
      ],
      providers: [
        BotHandlers,
        CommentEffect,
        { provide: GithubApi, useValue: new GithubApi(apiUrl, apiToken) },
      ],
    };
  }
}
