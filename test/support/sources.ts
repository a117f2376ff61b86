import { github, hmac, stripe, type GithubOptions, type HmacOptions } from '../../src/index.js';
import type { SourceOptions } from '../../src/sources/index.js';
import { AWARDEE_SECRET, GITHUB_SECRET, SESMETRIC_SECRET, STRIPE_SECRET } from './signing.js';

/** Part A of the requirements: the body is signed; id and type are headers, which no signature covers. */
export const awardeeSource = (options: Partial<HmacOptions> = {}) =>
  hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'X-Awardee-Signature',
    idHeader: 'X-Awardee-Delivery',
    typeHeader: 'X-Awardee-Event',
    ...options,
  });

/** Part B: `timestamp.body` is signed; id and type are in the body. */
export const sesmetricSource = (options: Partial<HmacOptions> = {}) =>
  hmac({
    secrets: [SESMETRIC_SECRET],
    signatureHeader: 'X-SESMetric-Signature',
    timestampHeader: 'X-SESMetric-Timestamp',
    idPath: 'id',
    typePath: 'type',
    ...options,
  });

export const stripeSource = (options: Partial<SourceOptions> = {}) =>
  stripe({ secrets: [STRIPE_SECRET], ...options });

export const githubSource = (options: Partial<GithubOptions> = {}) =>
  github({ secrets: [GITHUB_SECRET], ...options });
