import { readdirSync, readFileSync, existsSync } from 'node:fs';
import { Injectable } from '@nestjs/common';
import { gzipSync } from 'node:zlib';

export interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
}

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** The built page, read once: only what is listed here is served, so that no request names a file of the disk. */
@Injectable()
export class PageFiles {
  private loaded: { readonly html: string; readonly assets: ReadonlyMap<string, PageFile> } | undefined;

  /** The page with its assets' addresses made relative to `base`; undefined when it is not beside the code. */
  html(base: string): string | undefined {
    return this.load()?.html.replaceAll('./assets/', `${base}/assets/`);
  }

  asset(name: string): PageFile | undefined {
    return this.load()?.assets.get(name);
  }

  private load() {
    this.loaded ??= read();
    return this.loaded;
  }
}

function read() {
  // From dist/src/dashboard and dist/cjs/src/dashboard the build lies in dist/dashboard; from the sources it lies in their dist.
  const folder = ['../../dashboard/', '../../../dashboard/', '../../dist/dashboard/']
    // Where a bundler has made CommonJS of this, there is no URL.
    .filter((path) => URL.canParse(path, import.meta.url))
    .map((path) => new URL(path, import.meta.url))
    .find((url) => existsSync(new URL('assets/', url)));
  if (folder === undefined) return undefined;
  const names = readdirSync(new URL('assets/', folder));
  const assets = names.map((name): [string, PageFile] => {
    const bytes = readFileSync(new URL(`assets/${name}`, folder));
    const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
    return [name, { type, bytes, gzipped: gzipSync(bytes) }];
  });
  return { html: readFileSync(new URL('index.html', folder), 'utf8'), assets: new Map(assets) };
}
