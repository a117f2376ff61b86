import { createHash, createHmac } from 'node:crypto';
import { NOW, ORIGIN, URL_PATH } from '../../signers/index.js';
import type { Vector } from '../vector.js';
import { vectorMaker } from './vector-maker.js';

const URL = ORIGIN + URL_PATH;

/** Challenges of vendors, with the exact answer where one is due. */
export function handshakeVectors(): Vector[] {
  return [...meta(), ...dropbox(), ...braintree(), ...xTwitter(), ...slack(), ...zoom()];
}

function challenge(provider: string, parameters: Partial<Vector>) {
  const make = vectorMaker(provider, 'handshake', { variant: 'challenge', ...parameters });
  return (name: string, expect: Vector['expect'], why: string, own: Partial<Vector>): Vector =>
    make({
      name,
      request: { headers: own.headers ?? {}, body: own.body ?? '' },
      expect,
      why,
      parameters: own,
    });
}

function meta(): Vector[] {
  const make = challenge('meta', { method: 'GET', secret: 'my-verify-token', response: '1158201444' });
  const url = (token: string) =>
    `${URL}?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=${token}`;
  return [
    make('right verify token', 'valid', 'the challenge as text', { url: url('my-verify-token') }),
    make('wrong verify token', 'invalid', 'someone else’s subscription', { url: url('other') }),
  ];
}

function dropbox(): Vector[] {
  const make = challenge('dropbox', { method: 'GET', secret: 'app-secret', response: 'abc123' });
  return [
    make('challenge', 'valid', 'echoed as text', { url: `${URL}?challenge=abc123` }),
    make('no challenge', 'invalid', 'nothing to answer', { url: URL }),
  ];
}

function braintree(): Vector[] {
  const key = createHash('sha1').update('private_key').digest();
  const text = '0123456789abcdef0123';
  const response = `public_key|${createHmac('sha1', key).update(text).digest('hex')}`;
  const make = challenge('braintree', {
    method: 'GET',
    secret: 'private_key',
    public_key: 'public_key',
    response,
  });
  return [
    make('bt_challenge', 'valid', 'public key and HMAC', { url: `${URL}?bt_challenge=${text}` }),
    make('bt_challenge that is no hex', 'invalid', 'an oracle otherwise', {
      url: `${URL}?bt_challenge=not-hex-not-hex-not-hex`,
    }),
  ];
}

function xTwitter(): Vector[] {
  const secret = 'consumer-secret';
  const response = `sha256=${createHmac('sha256', secret).update('token1').digest('base64')}`;
  const make = challenge('x-twitter', { method: 'GET', secret, response });
  return [
    make('crc_token', 'valid', 'HMAC of the token', { url: `${URL}?crc_token=token1` }),
    make('crc_token that is an event', 'invalid', 'the answer would sign a forged event', {
      url: `${URL}?crc_token=%7B%22a%22%3A1%7D`,
    }),
  ];
}

function slack(): Vector[] {
  const secret = 'slack-signing-secret';
  const body = '{"token":"t","challenge":"c123","type":"url_verification"}';
  const signature = `v0=${createHmac('sha256', secret).update(`v0:${NOW}:${body}`).digest('hex')}`;
  const headers = { 'X-Slack-Request-Timestamp': String(NOW), 'X-Slack-Signature': signature };
  const make = challenge('slack', { method: 'POST', secret, response: 'c123', body });
  return [
    make('url_verification', 'valid', 'signed, so echoed', { headers, body }),
    make('url_verification, not signed', 'invalid', 'an echo for anyone otherwise', { body }),
  ];
}

function zoom(): Vector[] {
  const secret = 'zoom-secret-token';
  const body = '{"event":"endpoint.url_validation","payload":{"plainToken":"p123"},"event_ts":1767225600000}';
  const signature = `v0=${createHmac('sha256', secret).update(`v0:${NOW}:${body}`).digest('hex')}`;
  const headers = { 'x-zm-request-timestamp': String(NOW), 'x-zm-signature': signature };
  const encryptedToken = createHmac('sha256', secret).update('p123').digest('hex');
  const response = JSON.stringify({ plainToken: 'p123', encryptedToken });
  const make = challenge('zoom', { method: 'POST', secret, response });
  return [
    make('endpoint.url_validation', 'valid', 'signed, so answered', { headers, body }),
    make('endpoint.url_validation, not signed', 'invalid', 'an oracle otherwise', { body }),
  ];
}
