import type { SourceDefinition } from '../core/options/source.js';
import { adyen } from './providers/adyen.js';
import { asana } from './providers/asana.js';
import { braintree } from './providers/braintree.js';
import { cashfree } from './providers/cashfree.js';
import { bitbucket, bitbucketServer, gitea, gogs } from './providers/code-hosting.js';
import { calendly, intercom, sanity, typeform, zendesk } from './providers/content.js';
import { contentful } from './providers/contentful.js';
import { convoy } from './providers/convoy.js';
import { discord } from './providers/discord.js';
import { docuSign } from './providers/docusign.js';
import { drone } from './providers/drone.js';
import { dropbox } from './providers/dropbox.js';
import { github } from './providers/github.js';
import { gitlab } from './providers/gitlab.js';
import { hmac } from './providers/hmac.js';
import { hook0 } from './providers/hook0.js';
import { hubspot } from './providers/hubspot.js';
import { line } from './providers/line.js';
import { linear } from './providers/linear.js';
import { mailgun } from './providers/mailgun.js';
import { meta } from './providers/meta.js';
import { monday } from './providers/monday.js';
import { okta } from './providers/okta.js';
import {
  coinbaseCommerce,
  goCardless,
  lemonSqueezy,
  paddle,
  paystack,
  razorpay,
} from './providers/payments.js';
import { paypal } from './providers/paypal.js';
import { plaid } from './providers/plaid.js';
import { emailit, mux, pagerDuty, podium, sentry, vercel, workOs } from './providers/platforms.js';
import { postmark } from './providers/postmark.js';
import { qonto } from './providers/qonto.js';
import { sendGrid } from './providers/sendgrid.js';
import { shopify } from './providers/shopify.js';
import { slack } from './providers/slack.js';
import { sns } from './providers/sns.js';
import { square } from './providers/square.js';
import {
  bigCommerce,
  clerk,
  openai,
  polar,
  replicate,
  resend,
  standardWebhooks,
  svix,
} from './providers/standard-webhooks.js';
import { stripe } from './providers/stripe.js';
import { telegram } from './providers/telegram.js';
import { trello } from './providers/trello.js';
import { twilio } from './providers/twilio.js';
import { twitch } from './providers/twitch.js';
import { wooCommerce } from './providers/woocommerce.js';
import { xTwitter } from './providers/x-twitter.js';
import { xero } from './providers/xero.js';
import { zoom } from './providers/zoom.js';

/** Options as a file gives them: the provider checks names and its own values, the module the policies. */
export type UntypedOptions = Readonly<Record<string, unknown>>;
/** A provider's function for options that a file gives. */
export type UntypedFactory = (options: UntypedOptions) => SourceDefinition;

/**
 * Every provider by its name, for sources that a file configures: `{ "billing": { "provider": "stripe", "secrets": ["whsec_…"] } }`.
 * Import the functions themselves where you can: this map holds the whole catalogue.
 */
export const providersByName: ReadonlyMap<string, UntypedFactory> = new Map(
  Object.entries({
    adyen: untyped(adyen),
    asana: untyped(asana),
    bigcommerce: untyped(bigCommerce),
    bitbucket: untyped(bitbucket),
    'bitbucket-server': untyped(bitbucketServer),
    braintree: untyped(braintree),
    calendly: untyped(calendly),
    cashfree: untyped(cashfree),
    clerk: untyped(clerk),
    'coinbase-commerce': untyped(coinbaseCommerce),
    contentful: untyped(contentful),
    convoy: untyped(convoy),
    discord: untyped(discord),
    docusign: untyped(docuSign),
    drone: untyped(drone),
    dropbox: untyped(dropbox),
    emailit: untyped(emailit),
    gitea: untyped(gitea),
    github: untyped(github),
    gitlab: untyped(gitlab),
    gocardless: untyped(goCardless),
    gogs: untyped(gogs),
    hmac: untyped(hmac),
    hook0: untyped(hook0),
    hubspot: untyped(hubspot),
    intercom: untyped(intercom),
    lemonsqueezy: untyped(lemonSqueezy),
    line: untyped(line),
    linear: untyped(linear),
    mailgun: untyped(mailgun),
    meta: untyped(meta),
    monday: untyped(monday),
    mux: untyped(mux),
    okta: untyped(okta),
    openai: untyped(openai),
    paddle: untyped(paddle),
    pagerduty: untyped(pagerDuty),
    paypal: untyped(paypal),
    paystack: untyped(paystack),
    plaid: untyped(plaid),
    podium: untyped(podium),
    polar: untyped(polar),
    postmark: untyped(postmark),
    qonto: untyped(qonto),
    razorpay: untyped(razorpay),
    replicate: untyped(replicate),
    resend: untyped(resend),
    sanity: untyped(sanity),
    sendgrid: untyped(sendGrid),
    sentry: untyped(sentry),
    shopify: untyped(shopify),
    slack: untyped(slack),
    sns: untyped(sns),
    square: untyped(square),
    'standard-webhooks': untyped(standardWebhooks),
    stripe: untyped(stripe),
    svix: untyped(svix),
    telegram: untyped(telegram),
    trello: untyped(trello),
    twilio: untyped(twilio),
    twitch: untyped(twitch),
    typeform: untyped(typeform),
    vercel: untyped(vercel),
    woocommerce: untyped(wooCommerce),
    workos: untyped(workOs),
    'x-twitter': untyped(xTwitter),
    xero: untyped(xero),
    zendesk: untyped(zendesk),
    zoom: untyped(zoom),
  }),
);

/** The factory's options as read from a file, which have no type before they are checked. */
function untyped(factory: (options: never) => SourceDefinition): UntypedFactory {
  return factory as UntypedFactory;
}
