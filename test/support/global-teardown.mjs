const { tearDown } = await import('./postgres.ts');
export default tearDown;
