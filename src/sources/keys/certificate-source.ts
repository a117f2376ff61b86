import type { KeyObject, X509Certificate } from 'node:crypto';
import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import { certificateKey, readCertificates } from './certificate.js';
import { fetchText, type Fetch } from './fetch-text.js';
import { RemoteKeys } from './remote-keys.js';

/** How the certificates of a vendor are fetched. */
export interface CertificateOptions {
  /** Fetches certificates, for proxies and tests. @default the global fetch */
  readonly fetch?: Fetch;
  /**
   * Certificate authorities (PEM) to which the vendor's certificate must lead.
   * @default the vendor's host, reached over TLS, vouches for its certificate
   */
  readonly trustedRoots?: readonly string[];
}

export const CERTIFICATE_OPTIONS = { fetch: true, trustedRoots: true } as const;

/** Public keys of certificates by URL, from the vendor's own hosts only. */
export class CertificateSource {
  private readonly keys: RemoteKeys<KeyObject>;

  /**
   * @param isOwn whether a URL is the vendor's
   * @throws ConfigurationError for a trusted root that cannot be read
   */
  constructor(
    provider: string,
    private readonly isOwn: (url: URL) => boolean,
    options: CertificateOptions,
  ) {
    const roots = (options.trustedRoots ?? []).flatMap((pem, i) =>
      readRoot(`${provider}.trustedRoots.${i}`, pem),
    );
    const fetch: Fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
    this.keys = new RemoteKeys(async (url) => certificateKey(await fetchText(fetch, url), roots));
  }

  /**
   * Whether the certificate at a URL made a signature.
   * @param verifies the check, with the certificate's key
   * @throws SignatureRejection when the URL is not the vendor's, or the certificate could not be loaded or used
   */
  async verify(text: unknown, verifies: (key: KeyObject) => boolean): Promise<boolean> {
    const { href } = this.ownUrl(text);
    const key = await this.keys.get(href);
    if (!verifies(key)) return false;
    this.keys.trust(href, key);
    return true;
  }

  private ownUrl(text: unknown): URL {
    const url =
      typeof text === 'string' && text.length <= 2048 && URL.canParse(text) ? new URL(text) : undefined;
    if (
      url === undefined ||
      // 'https:/@host' is read as 'https://host' by some, and refused by others.
      url.href !== text ||
      url.protocol !== 'https:' ||
      url.username !== '' ||
      url.password !== '' ||
      url.port !== '' ||
      // One certificate would have any number of names.
      url.search !== '' ||
      url.hash !== '' ||
      !this.isOwn(url)
    )
      throw new SignatureRejection('unusable-key', 'the certificate is not on a host of the vendor');
    return url;
  }
}

function readRoot(path: string, pem: string): X509Certificate[] {
  try {
    const certificates = readCertificates(pem);
    if (certificates.length > 0) return certificates;
  } catch {
    // The message below says it better.
  }
  throw new ConfigurationError(`${path}: expected a certificate in PEM, received other text`);
}
