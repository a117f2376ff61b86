import { BlockList, isIP } from 'node:net';
import { ConfigurationError } from '../core/errors.js';

/**
 * IPv4 addresses that are not the public internet, by IANA's special-purpose registry. These are this host, private, carrier-grade NAT,
 * loopback, protocol assignments, documentation, benchmarks, multicast, reserved and broadcast. Link-local has the clouds' metadata
 * services. Azure's metadata service has a public address.
 */
const REFUSED_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
/**
 * IPv6 is public in 2000::/3 only. These ranges within it are not public, or carry an IPv4 address that was not checked (Teredo, 6to4).
 * Mapped (::ffff:0:0/96) and NAT64 (64:ff9b::/96) addresses lie outside.
 */
const PUBLIC_V6 = ['2000::/3'];
const REFUSED_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];

const refusedV4 = list(REFUSED_V4);
const publicV6 = list(PUBLIC_V6);
const refusedV6 = list(REFUSED_V6);

/** Which addresses may be connected to. */
export type AddressRules = (address: string) => boolean;

/**
 * @param allowed private addresses that are wanted all the same: all of them, or blocks such as '10.1.0.0/16'
 * @throws ConfigurationError for text that is no block
 */
export function addressRules(allowed: boolean | readonly string[]): AddressRules {
  if (allowed === true) return () => true;
  const exceptions = list(allowed === false ? [] : allowed);
  return (address) => isPublic(address) || inList(exceptions, address);
}

/** Whether an address is one of the public internet. */
export function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !inList(refusedV4, address);
  return inList(publicV6, address) && !inList(refusedV6, address);
}

function inList(blocks: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && blocks.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

function list(blocks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const block of blocks) {
    const [address = '', prefix] = block.split('/');
    const family = isIP(address);
    const bits = prefix === undefined ? (family === 4 ? 32 : 128) : Number(prefix);
    if (family === 0 || !Number.isInteger(bits) || bits < 0 || bits > (family === 4 ? 32 : 128)) {
      throw new ConfigurationError(
        `privateAddresses: expected blocks such as '10.1.0.0/16', received '${block}'`,
      );
    }
    list.addSubnet(address, bits, family === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}
