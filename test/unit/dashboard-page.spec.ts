import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { builtPage } from '../../src/dashboard/built.page.js';
import { pageOf } from '../../src/dashboard/page.files.js';
import { crossSiteFault } from '../../src/dashboard/same-origin.js';

describe('the dashboard’s page', () => {
  it('is missing, and nothing throws, where it was not built', () => {
    const folder = mkdtempSync(join(tmpdir(), 'no-page-'));
    try {
      expect(builtPage(pathToFileURL(`${folder}/`))).toBeUndefined();
    } finally {
      rmSync(folder, { recursive: true });
    }
    expect(pageOf(undefined)).toBeUndefined();
    expect(pageOf({ 'assets/x.js': '' })).toBeUndefined();
  });

  it('has its assets by their names', () => {
    const page = pageOf({ 'index.html': '<html>', 'assets/x.css': 'a{}', 'assets/x.bin': '?' })!;
    expect(page.html).toBe('<html>');
    expect([...page.assets].map(([name, { type, bytes }]) => [name, type, bytes.toString()])).toEqual([
      ['x.css', 'text/css; charset=utf-8', 'a{}'],
      ['x.bin', 'application/octet-stream', '?'],
    ]);
  });
});

describe('a request that changes something', () => {
  const json = { 'content-type': 'application/json' };

  it('is taken from a client that is no browser', () => {
    expect(crossSiteFault({ headers: { ...json, host: 'hooks.example' } })).toBeUndefined();
  });

  it('is refused without a host to compare its origin with', () => {
    expect(crossSiteFault({ headers: { ...json, origin: 'null' } })).toMatch(/another origin/);
  });
});
