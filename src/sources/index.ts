// Vendors
export { adyen, type AdyenOptions } from './providers/adyen.js';
export { asana, type AsanaOptions } from './providers/asana.js';
export { bitbucket, bitbucketServer, gitea, gogs } from './providers/code-hosting.js';
export { braintree } from './providers/braintree.js';
export { cashfree, type CashfreeOptions } from './providers/cashfree.js';
export { calendly, intercom, sanity, typeform, zendesk } from './providers/content.js';
export { contentful } from './providers/contentful.js';
export { convoy, type ConvoyOptions } from './providers/convoy.js';
export { discord } from './providers/discord.js';
export { docuSign } from './providers/docusign.js';
export { drone } from './providers/drone.js';
export { dropbox, type DropboxOptions } from './providers/dropbox.js';
export { github, type GithubOptions } from './providers/github.js';
export { gitlab } from './providers/gitlab.js';
export { hook0, type Hook0Options, type Hook0Version } from './providers/hook0.js';
export { hubspot, type HubspotOptions, type HubspotVersion } from './providers/hubspot.js';
export { line } from './providers/line.js';
export { linear } from './providers/linear.js';
export { mailgun } from './providers/mailgun.js';
export { meta, type MetaOptions } from './providers/meta.js';
export { monday, type MondayOptions } from './providers/monday.js';
export { okta, type OktaOptions } from './providers/okta.js';
export {
  coinbaseCommerce,
  goCardless,
  lemonSqueezy,
  paddle,
  paystack,
  razorpay,
} from './providers/payments.js';
export { paypal, type PaypalOptions } from './providers/paypal.js';
export { plaid, type PlaidOptions } from './providers/plaid.js';
export { emailit, mux, pagerDuty, podium, sentry, vercel, workOs } from './providers/platforms.js';
export { postmark } from './providers/postmark.js';
export { qonto, type QontoOptions } from './providers/qonto.js';
export { sendGrid } from './providers/sendgrid.js';
export { shopify } from './providers/shopify.js';
export { slack } from './providers/slack.js';
export { sns, type SnsOptions } from './providers/sns.js';
export { square, type SquareOptions } from './providers/square.js';
export {
  bigCommerce,
  clerk,
  openai,
  polar,
  replicate,
  resend,
  standardWebhooks,
  svix,
} from './providers/standard-webhooks.js';
export { stripe } from './providers/stripe.js';
export { telegram } from './providers/telegram.js';
export { trello, type TrelloOptions } from './providers/trello.js';
export { twilio, type TwilioOptions } from './providers/twilio.js';
export { twitch } from './providers/twitch.js';
export { wooCommerce } from './providers/woocommerce.js';
export { xTwitter } from './providers/x-twitter.js';
export { xero } from './providers/xero.js';
export { zoom } from './providers/zoom.js';

// Schemes of your own
export { custom, type CustomOptions } from './providers/custom.js';
export { hmac, type HmacOptions } from './providers/hmac.js';

export { cachedSecrets, type CachedSecretsOptions } from './cached-secrets.js';
export { providersByName, type UntypedFactory, type UntypedOptions } from './registry.js';
export type { CertificateOptions } from './keys/certificate-source.js';
export type { DedupeFunction, DedupeInput, DedupeKey } from './events/dedupe-key.js';
export type { DigestEncoding } from './signing/digest.js';
export type { EventFields, HeaderName } from './events/event-fields.js';
export type { Fetch } from './keys/fetch-text.js';
export type { MacAlgorithm } from './signing/mac.js';
export type { MetaEventUnit } from './providers/meta-events.js';
export type { PairsFormat } from './signing/signature-text.js';
export type { SenderRetryOptions } from './retry-options.js';
export type { SecretEncoding } from './signing/mac.js';
export type { SourceFactory, SourceOptions } from './source-options.js';
export type { TimeUnit } from './signing/signed-time.js';
