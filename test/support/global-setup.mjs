import { register } from 'node:module';

// Jest loads this file with Node, whose loader must be taught TypeScript.
register('@swc-node/register/esm', import.meta.url);
const { createTemplate, startServer } = await import('./postgres.ts');

export default async function setUp() {
  try {
    await startServer();
  } catch (error) {
    // The message says what to do; Jest would add a stack trace.
    console.error(error.message);
    process.exit(1);
  }
  await createTemplate();
}
