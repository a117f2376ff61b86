import type { SourceDefinition } from '../../core/options/source.js';
import { isChallenge } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventFields } from '../events/event-fields.js';
import { checkSecretText } from '../signing/secret-check.js';
import { presentedToken, verifyToken } from '../signing/token.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

/** Options of `okta()`. */
export interface OktaOptions extends SourceOptions {
  /** Header in which Okta sends the secret, as configured for the hook. @default 'Authorization' */
  readonly authenticationHeader?: string;
}

/**
 * Okta event hooks, which sign nothing. The secret is the authentication secret that you chose for the hook.
 * @see https://developer.okta.com/docs/concepts/event-hooks/
 */
export function okta<TPayload = unknown>(options: OktaOptions): SourceDefinition<TPayload> {
  return defineSource(schemeOf(options.authenticationHeader ?? 'Authorization'), options, {
    authenticationHeader: true,
  });
}

function schemeOf(header: string): Scheme {
  return {
    name: 'okta',
    docs: 'https://developer.okta.com/docs/concepts/event-hooks/',
    scheme: 'token in a header of your choice; nothing is signed',
    signed: { id: false, type: false, time: false },
    signsBody: false,
    checkSecret: checkSecretText,
    checkHead: (head) => void presentedToken(head.headers.one(header)),
    verify: (request, secrets) => verifyToken(request.headers.one(header), secrets),
    secretHeaders: [header.toLowerCase()],
    batched: true,
    events: eventFields({
      eventsPath: 'data.events',
      idPath: 'uuid',
      typePath: 'eventType',
      timePath: 'published',
    }),
    handshake: {
      methods: ['GET'],
      answer: (request) => {
        const verification =
          request.method === 'GET' ? request.headers.one('x-okta-verification-challenge') : undefined;
        return isChallenge(verification) ? { status: 200, body: { verification } } : undefined;
      },
    },
    ackTimeoutMs: seconds(3),
    retries: { automatic: true, windowMs: minutes(5), sameBytes: false },
    notes: {
      id: '`data.events[].uuid`',
      stops: '4xx; at most one retry in any case',
      handshake: 'one GET with `x-okta-verification-challenge`, unsigned: its value as JSON',
      more: 'events come out of order: order by `published`',
      unconfirmed: '`uuid`, when the one retry comes',
    },
  };
}
