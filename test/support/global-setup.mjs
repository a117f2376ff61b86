import { register } from 'node:module';

// Jest loads this file with Node, whose loader must be taught TypeScript.
register('@swc-node/register/esm', import.meta.url);
const { setUp } = await import('./postgres.ts');
export default setUp;
