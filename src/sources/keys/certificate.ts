import { X509Certificate, type KeyObject } from 'node:crypto';
import { SignatureRejection } from '../../core/errors.js';

/** Longest chain that is followed. */
const MAX_CHAIN = 6;

/**
 * The public key of the first certificate in PEM text. With `roots`, each certificate must be issued by the next one, and the last by one
 * of the roots. Without `roots`, the host that the text was fetched from over TLS vouches for it.
 * @throws SignatureRejection `unusable-key`
 */
export function certificateKey(pem: string, roots: readonly X509Certificate[]): KeyObject {
  const chain = readCertificates(pem);
  const [leaf] = chain;
  if (leaf === undefined || leaf.publicKey.asymmetricKeyType !== 'rsa')
    throw new SignatureRejection('unusable-key', 'the vendor’s certificate is no RSA certificate');
  if (roots.length > 0 && !leadsTo(chain, roots))
    throw new SignatureRejection('unusable-key', 'the vendor’s certificate does not lead to a trusted root');
  return leaf.publicKey;
}

/** @throws SignatureRejection `unusable-key` */
export function readCertificates(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return blocks.slice(0, MAX_CHAIN).map((block) => new X509Certificate(block));
  } catch (error) {
    throw new SignatureRejection('unusable-key', 'the vendor’s certificate cannot be read', { cause: error });
  }
}

function leadsTo(chain: readonly X509Certificate[], roots: readonly X509Certificate[]): boolean {
  const linked = chain.every((certificate, i) => {
    const issuer = chain[i + 1];
    return issuer === undefined || isIssuedBy(certificate, issuer);
  });
  const last = chain.at(-1);
  return (
    linked &&
    last !== undefined &&
    roots.some((root) => root.fingerprint256 === last.fingerprint256 || isIssuedBy(last, root))
  );
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  return issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}
