import { lookup as dnsLookup, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { headOf } from '../core/event.js';
import { PermanentError } from '../core/errors.js';
import type { AddressRules } from './address-rules.js';

/** A URL that no effect may call. Permanent: it is the same at the next attempt. */
export class DestinationRefused extends PermanentError {}

/** Resolves a name to all its addresses. */
export type Resolve = (
  hostname: string,
  callback: (error: Error | null, addresses: LookupAddress[]) => void,
) => void;

const resolveByDns: Resolve = (hostname, callback) => dnsLookup(hostname, { all: true }, callback);

/**
 * The URL, if its text alone does not rule it out. An IP address in the text is judged here, since no lookup happens for it. The URL parser
 * has turned every spelling of it (octal, hexadecimal, one number) into the usual one.
 * @throws DestinationRefused
 */
export function destination(text: string | URL, allowHttp: boolean, mayConnect: AddressRules): URL {
  // The parser drops line breaks and replaces backslashes. Another reader may treat them differently.
  if (/[\s\\\u0000-\u001f\u007f]/.test(String(text)))
    throw new DestinationRefused('the URL holds spaces, control characters or backslashes');
  if (!URL.canParse(String(text))) throw new DestinationRefused('expected an absolute URL');
  const url = new URL(text);
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:')) {
    throw new DestinationRefused(
      `expected https${allowHttp ? ' or http' : ''}, received '${headOf(url.protocol, 20)}'; allow http by { allow: { http: true } }, ` +
        `and for a loopback or private address by { allow: { http: true, privateAddresses: ['127.0.0.1'] } }`,
    );
  }
  if (url.username !== '' || url.password !== '')
    throw new DestinationRefused('the URL holds a user name or a password; send a header instead');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0 && !mayConnect(host)) throw notPublic(host, host);
  return url;
}

/**
 * The lookup of a connection. Each name is resolved once, and the judged address is the one that is connected to. So a name that changes
 * its address between a check and a connection gains nothing. One refused address rules out the name.
 */
export function checkedLookup(mayConnect: AddressRules, resolve: Resolve = resolveByDns): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      const refused = error === null ? addresses.find(({ address }) => !mayConnect(address)) : undefined;
      const first = addresses?.[0];
      if (error !== null) callback(error, []);
      else if (refused !== undefined) callback(notPublic(hostname, refused.address), []);
      else if (first === undefined) callback(new Error(`${hostname} has no address`), []);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

function notPublic(host: string, address: string): DestinationRefused {
  return new DestinationRefused(
    `${headOf(host, 100)} leads to ${address}, which is no public address; ` +
      `to allow it, give { allow: { privateAddresses: ['${address}'] } }`,
  );
}
