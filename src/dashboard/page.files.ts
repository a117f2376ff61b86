import { gzipSync } from 'node:zlib';
import { Injectable } from '@nestjs/common';
import { builtPage } from './built.page.js';

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

  /** The page with its assets' addresses made relative to `base`; undefined when it was not built. */
  html(base: string): string | undefined {
    return this.load()?.html.replaceAll('./assets/', `${base}/assets/`);
  }

  asset(name: string): PageFile | undefined {
    return this.load()?.assets.get(name);
  }

  private load() {
    this.loaded ??= pageOf(builtPage());
    return this.loaded;
  }
}

/** The page of its built files; undefined without an index. */
export function pageOf(built: ReturnType<typeof builtPage>) {
  const { 'index.html': html, ...files } = built ?? {};
  if (html === undefined) return undefined;
  const assets = Object.entries(files).map(([path, text]): [string, PageFile] => {
    const bytes = Buffer.from(text);
    const type = TYPES[path.slice(path.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
    return [path.slice(path.indexOf('/') + 1), { type, bytes, gzipped: gzipSync(bytes) }];
  });
  return { html, assets: new Map(assets) };
}
