import type { FactoryProvider } from '@nestjs/common';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { ConfigurationError } from '../core/errors.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';

/** The application's own DataSource, under the package's token. Optional for Nest, so that it is us who say what is missing. */
export function dataSourceProvider(name: string | undefined): FactoryProvider<DataSource> {
  return {
    provide: WEBHOOKS_DATA_SOURCE,
    inject: [{ token: getDataSourceToken(name), optional: true }],
    useFactory: (given?: DataSource) => given ?? refuse(name),
  };
}

function refuse(name: string | undefined): never {
  const named = name === undefined ? '' : `name: '${name}', `;
  throw new ConfigurationError(
    `WebhooksModule needs the application's DataSource: expected TypeOrmModule.forRoot({ ${named}type: 'postgres', … }) among the ` +
      `imports of the root module, found none` +
      (name === undefined
        ? '. Of one that has a name, give it: WebhooksModule.forRoot({ dataSource: name, … })'
        : ' of that name'),
  );
}
