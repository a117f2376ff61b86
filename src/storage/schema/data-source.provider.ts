import type { FactoryProvider } from '@nestjs/common';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { ConfigurationError } from '../../core/errors.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';

/** The application's own DataSource, under the package's token. Optional for Nest, so that it is us who say what is missing. */
export function dataSourceProvider(
  name: string | undefined,
  token = WEBHOOKS_DATA_SOURCE,
  module = 'WebhooksModule',
): FactoryProvider<DataSource> {
  return {
    provide: token,
    inject: [{ token: getDataSourceToken(name), optional: true }],
    useFactory: (given?: DataSource) => onlyText(onlyPostgres(given ?? refuse(name, module), module), module),
  };
}

/**
 * Refuses other drivers and databases that only resemble PostgreSQL. They would boot and then answer 503. CockroachDB has no LISTEN and no
 * advisory locks, and Aurora's Data API has no connection to which a transaction could be pinned.
 */
function onlyPostgres(dataSource: DataSource, module: string): DataSource {
  const { type } = dataSource.options;
  if (type === 'postgres') return dataSource;
  throw new ConfigurationError(
    `${module} needs a DataSource of PostgreSQL: expected type: 'postgres', received type: '${type}'. Where the application's own ` +
      `data is elsewhere, add a second one, TypeOrmModule.forRoot({ name: 'webhooks', type: 'postgres', … }), and give its name: ` +
      `${module}.forRoot({ dataSource: 'webhooks', … })`,
  );
}

/** A client that asks for answers in binary does so for queries of ours, too: each delivery would be answered 503. */
function onlyText(dataSource: DataSource, module: string): DataSource {
  const { extra } = dataSource.options as { readonly extra?: { readonly binary?: boolean } };
  if (extra?.binary !== true) return dataSource;
  throw new ConfigurationError(
    `${module} reads PostgreSQL's answers as text: expected a DataSource without extra.binary, received true. ` +
      `Leave it out, or give the package a DataSource of its own: ${module}.forRoot({ dataSource: 'webhooks', … })`,
  );
}

function refuse(name: string | undefined, module: string): never {
  const named = name === undefined ? '' : `name: '${name}', `;
  throw new ConfigurationError(
    `${module} needs the application's DataSource: expected TypeOrmModule.forRoot({ ${named}type: 'postgres', … }) among the ` +
      `imports of the root module, found none` +
      (name === undefined
        ? `. Give the name of a named one: ${module}.forRoot({ dataSource: name, … })`
        : ' of that name'),
  );
}
