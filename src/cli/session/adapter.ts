import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { AbstractHttpAdapter } from '@nestjs/core';

/** Platforms that an application may have installed, with their adapter. Express is first, as it is Nest's default. */
const PLATFORMS = [
  ['@nestjs/platform-express', 'ExpressAdapter'],
  ['@nestjs/platform-fastify', 'FastifyAdapter'],
] as const;

type Adapters = Readonly<Record<string, (new () => AbstractHttpAdapter) | undefined>>;

/** The adapter of the platform that the application has installed; undefined where it has none. */
export async function adapterOf(named: string): Promise<AbstractHttpAdapter | undefined> {
  const require = createRequire(resolve(named.split('#', 1)[0]!));
  for (const [platform, name] of PLATFORMS) {
    const adapters = await installed(require, platform);
    const Adapter = adapters?.[name];
    if (Adapter !== undefined) return new Adapter();
  }
  return undefined;
}

async function installed(require: NodeJS.Require, platform: string): Promise<Adapters | undefined> {
  try {
    return (await import(pathToFileURL(require.resolve(platform)).href)) as Adapters;
  } catch {
    return undefined;
  }
}
