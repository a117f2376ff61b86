import { defineConfig } from 'vite';

/** The page: plain files with relative addresses, so that it works under any path. */
export default defineConfig({
  base: './',
  build: {
    outDir: '../dist/dashboard',
    emptyOutDir: true,
    // Inlined as data: they would need a policy that lets data: through.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
});
