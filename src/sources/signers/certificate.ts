import { createSign, type KeyObject } from 'node:crypto';

/** The content of a test certificate. */
export interface CertificateRequest {
  readonly subject: string;
  readonly publicKey: KeyObject;
  /** @default self-signed */
  readonly issuer?: string;
  readonly issuerKey: KeyObject;
  readonly ca: boolean;
}

/** An X.509 v3 certificate in PEM, signed with SHA-256 and RSA, valid from 2020 to 2120: Node reads certificates, but makes none. */
export function makeCertificate({ subject, publicKey, issuer, issuerKey, ca }: CertificateRequest): string {
  const algorithm = sequence(oid('2a864886f70d01010b'), Buffer.from('0500', 'hex'));
  const tbs = sequence(
    tagged(0xa0, integer(2)),
    integer(Math.floor(Math.random() * 0x7fffffff) + 1),
    algorithm,
    name(issuer ?? subject),
    sequence(time('200101000000Z'), tag(0x18, Buffer.from('21200101000000Z'))),
    name(subject),
    publicKey.export({ format: 'der', type: 'spki' }),
    tagged(0xa3, sequence(basicConstraints(ca))),
  );
  const signature = createSign('sha256').update(tbs).sign(issuerKey);
  const der = sequence(tbs, algorithm, tag(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

function basicConstraints(ca: boolean): Buffer {
  const value = sequence(...(ca ? [tag(0x01, Buffer.from([0xff]))] : []));
  return sequence(oid('551d13'), tag(0x01, Buffer.from([0xff])), tag(0x04, value));
}

function name(commonName: string): Buffer {
  return sequence(tag(0x31, sequence(oid('550403'), tag(0x0c, Buffer.from(commonName)))));
}

function time(text: string): Buffer {
  return tag(0x17, Buffer.from(text));
}

function integer(value: number): Buffer {
  const hex = value.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  return tag(0x02, (bytes[0] ?? 0) > 0x7f ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);
}

function oid(hex: string): Buffer {
  return tag(0x06, Buffer.from(hex, 'hex'));
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, ...parts);
}

function tagged(id: number, ...parts: Buffer[]): Buffer {
  return tag(id, Buffer.concat(parts));
}

function tag(id: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([id, ...size]), content]);
}
