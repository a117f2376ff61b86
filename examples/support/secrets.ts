// Known to everyone who reads this file: for trying things out on one's own machine, nothing else.
const KNOWN_TO_EVERYONE = {
  stripe: 'whsec_tryout5fb1c3a97e0d4b268c',
  github: 'tryout-github-5fb1c3a97e0d4b268c',
  shopify: 'tryout-shopify-5fb1c3a97e0d4b268c',
  'standard-webhooks': 'whsec_dHJ5b3V0LXN0YW5kYXJkLTVmYjFjM2E5N2UwZDRiMjY=',
  awardee: 'tryout-awardee-5fb1c3a97e0d4b268c',
  sesmetric: 'tryout-sesmetric-5fb1c3a97e0d4b268c',
  'sesmetric-old': 'tryout-sesmetric-old-5fb1c3a97e0d4b26',
} as const;

/** A source that the example receiver has unless a file says otherwise; one has an old secret beside its new one. */
export type ExampleSource = keyof typeof KNOWN_TO_EVERYONE;

/** The secret of an example source: `GITHUB_WEBHOOK_SECRET` and so on, or one that is in this file. */
export function secretOf(source: ExampleSource): string {
  const variable = `${source.toUpperCase().replaceAll('-', '_')}_WEBHOOK_SECRET`;
  return process.env[variable] || KNOWN_TO_EVERYONE[source];
}
