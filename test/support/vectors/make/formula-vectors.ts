import {
  NOW,
  ORIGIN,
  URL_PATH,
  signers,
  type SignedRequest,
  type Signer,
  servedCertificate,
  servedPlaidKey,
} from '../../signers/index.js';
import type { Vector } from '../vector.js';
import { vectorMaker, type Case } from './vector-maker.js';

/** Each scheme signed as its documentation says, with what must be refused beside it. */
export function formulaVectors(): Vector[] {
  return signers.flatMap((signer) => {
    const vector = vectorMaker(signer.provider, 'formula', parametersOf(signer));
    return casesOf(signer).map((one) => vector(one));
  });
}

/** How a vector carries a signer's key material. */
function parametersOf(signer: Signer): Partial<Vector> {
  const url = ORIGIN + URL_PATH;
  switch (signer.provider) {
    case 'discord':
    case 'sendgrid':
      return { public_key: signer.secret };
    case 'plaid':
      return { public_key: (JSON.parse(servedPlaidKey) as { key: unknown }).key };
    case 'sns':
      return { cert_pem: servedCertificate };
    case 'paypal':
      return { webhook_id: signer.secret, cert_pem: servedCertificate };
    case 'braintree':
      return { public_key: 'public_key', secret: 'private_key' };
    case 'convoy':
      return { secret: signer.secret, variant: 'advanced', hash: 'SHA256', encoding: 'hex' };
    case 'adyen':
      return { secret: signer.secret, variant: 'payments' };
    default:
      return { secret: signer.secret, method: 'POST', url };
  }
}

function casesOf(signer: Signer): Case[] {
  const body = signer.body('evt_1');
  const at = (time: number, text = body) => signedText(signer, text, time);
  const good = at(NOW);
  const cases: Case[] = [
    { name: 'as documented', request: good, expect: 'valid', why: 'the formula of the documentation' },
    {
      name: 'without headers',
      request: { ...good, headers: {}, body: '{}' },
      expect: 'invalid',
      why: 'nothing is signed',
    },
  ];
  if (signer.provider !== 'plaid' && signer.provider !== 'sns')
    cases.push({
      name: 'another secret',
      request: good,
      expect: 'invalid',
      why: 'rotated away',
      parameters: otherSecret(signer),
    });
  if (signer.signsBody) cases.push(...bodyCases(signer, body));
  if (signer.signsTime) cases.push(...timeCases(signer));
  for (const [name, value] of signatureHeaders(good))
    cases.push(
      {
        name: `${name} twice`,
        request: withHeader(good, name, [value, value]),
        expect: 'invalid',
        why: 'which of two is meant is a guess',
      },
      {
        name: `${name} cut`,
        request: withHeader(good, name, value.slice(0, -2)),
        expect: 'invalid',
        why: 'truncated',
      },
      // Where spaces separate signatures, one more separates nothing.
      ...(/^(?:webhook|svix)-signature$/.test(name)
        ? []
        : [
            {
              name: `${name} with a space in front`,
              request: withHeader(good, name, ` ${value}`),
              expect: 'invalid',
              why: 'white space',
            } satisfies Case,
          ]),
      { name: `${name} empty`, request: withHeader(good, name, ''), expect: 'invalid', why: 'empty' },
    );
  return cases;
}

function bodyCases(signer: Signer, body: string): Case[] {
  const signed = (text: string) => signedText(signer, text, NOW);
  const changed = signed(body);
  return [
    {
      name: 'one byte more',
      request: { ...changed, body: `${changed.body} ` },
      expect: 'invalid',
      why: 'tampered',
    },
    ...(signer.provider === 'linear' || signer.provider === 'twilio'
      ? []
      : [
          '{ "a" : 1.0 , "b":[ ] }\r\n',
          '{"t":"héllo ✓ 日本語 😀 \u2028 <b>&amp;</b>"}',
          '\ufeff{"a":"\\u00e9\\/"}',
        ].map((text): Case => ({
          name: `body ${JSON.stringify(text)}`,
          request: signed(text),
          expect: 'valid',
          why: 'bytes are signed, not what a parser makes of them',
        }))),
  ];
}

/** Which windows hold is for the scheme to say; these hold or fail for every one that has a window. */
function timeCases(signer: Signer): Case[] {
  const windowless = ['discord', 'sendgrid', 'sanity', 'sns', 'paypal'].includes(signer.provider);
  return [-315_360_000, 315_360_000].map((skew) => ({
    name: skew < 0 ? 'ten years old' : 'ten years ahead',
    request: signedText(signer, signer.body('evt_1'), NOW + skew),
    expect: windowless ? 'valid' : 'invalid',
    why: windowless ? 'the vendor prescribes no window' : 'replay, or a clock that is off',
  }));
}

function otherSecret(signer: Signer): Partial<Vector> {
  if (signer.provider === 'paypal') return { webhook_id: signer.otherSecret };
  if (signer.provider === 'braintree') return { secret: 'another_private_key' };
  return signer.provider === 'discord' || signer.provider === 'sendgrid'
    ? { public_key: signer.otherSecret }
    : { secret: signer.otherSecret };
}

function signedText(signer: Signer, body: string, at: number): Case['request'] {
  const bytes = Buffer.from(body);
  const signed: SignedRequest = signer.sign(bytes, at, 'evt_1');
  return { headers: signed.headers, body: (signed.body ?? bytes).toString('utf8') };
}

/** The header that holds the signature or the token. */
function signatureHeaders({ headers }: Case['request']): [string, string][] {
  return Object.entries(headers)
    .filter(([name]) =>
      /(signature|hmac-sha256|transmission-sig|verification|trello-webhook|secret-token|ed25519)(-v3|-1|-256)?$/i.test(
        name,
      ),
    )
    .map(([name, value]) => [name, String(value)]);
}

function withHeader(request: Case['request'], name: string, value: string | string[]): Case['request'] {
  return { ...request, headers: { ...request.headers, [name]: value } };
}
