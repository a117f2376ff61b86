import * as crypto from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import ts from 'typescript';
import type { Signer } from '../../support/signers/index.js';

/** What the one comparison says: its own word, or the same to all. */
let says: 'equal' | 'different' | undefined;
jest.unstable_mockModule('node:crypto', () => ({
  ...crypto,
  timingSafeEqual: (a: Buffer, b: Buffer) =>
    says === undefined ? crypto.timingSafeEqual(a, b) : says === 'equal',
}));
const { NOW, signedRequest, signers, sourceOf } = await import('../../support/signers/index.js');
const { verifySignature } = await import('../../support/verify-signature.js');

afterEach(() => {
  says = undefined;
});

function isAccepted(signer: Signer, secret: string): Promise<boolean> {
  const { provider } = sourceOf(signer, [secret]);
  return verifySignature(provider, signedRequest(signer), [secret], undefined, NOW * 1000).then(
    () => true,
    () => false,
  );
}

/** A public key verifies; there is no secret whose comparison could tell anything. */
const PUBLIC_KEYS = ['discord', 'sendgrid', 'paypal'];
/** What is compared is public, and a public key verifies then. */
const PUBLIC_TEXTS = ['sns', 'plaid'];
/** The public half of its secret says which signature is looked at. */
const NAMED_KEY = ['braintree'];

describe('R08 signatures and tokens are compared by timingSafeEqual alone', () => {
  it.each(signers.filter(({ provider }) => !PUBLIC_KEYS.includes(provider)))(
    '$provider: its word decides',
    async (signer) => {
      says = undefined;
      expect(await isAccepted(signer, signer.secret)).toBe(true);
      says = 'different';
      expect(await isAccepted(signer, signer.secret)).toBe(false);
      if (PUBLIC_TEXTS.includes(signer.provider)) return;
      says = 'equal';
      const wrong = NAMED_KEY.includes(signer.provider) ? 'public_key:wrong_key' : signer.otherSecret;
      expect(await isAccepted(signer, wrong)).toBe(true);
    },
  );

  it('no other file asks for it, or compares bytes in another way', () => {
    const asking = files.filter((file) =>
      /timingSafeEqual\(|\.equals\(|Buffer\.compare/.test(sourceText(file)),
    );
    expect(asking).toEqual(['signing/digest.ts']);
  });

  it('whatever else is compared with what is no constant is no secret', () => {
    const found = files.flatMap((file) => comparisons(file).map((text) => `${file}: ${text}`));
    expect(found.filter((text) => !NO_SECRETS.has(text))).toEqual([]);
  });
});

const VERIFIER = '../inbox/delivery.verifier.ts';

/** Names, options and places; what is added here must be nothing that a caller could learn a secret from. */
const NO_SECRETS = new Set([
  // The request's method.
  "../inbox/delivery.verifier.ts: (provider.methods ?? ['POST']).includes(method)",
  // Names of headers, where a forward signs anew.
  'signers/scheme-signers.ts: one.toLowerCase() === wanted',
  'signers/sign-webhook.ts: given.has(name.toLowerCase())',
  'events/canonical-json.ts: without.includes(name)',
  'events/canonical-json.ts: path.startsWith(`${name}.`)',
  "events/same-content.ts: first.toString('latin1') === second.toString('latin1')",
  'events/same-content.ts: canonicalJson(first, rootOf(first), changes) === canonicalJson(second, rootOf(second), changes)',
  'define-source.ts: POLICY_NAMES.has(name)',
  'events/dedupe-check.ts: covers.headers.includes(key.header.toLowerCase())',
  `${VERIFIER}: handshake.methods.includes(request.method)`,
  `${VERIFIER}: secret !== known`,
  `${VERIFIER}: given?.source === source.name`,
  'keys/certificate-source.ts: url.href !== text',
  'keys/certificate.ts: root.fingerprint256 === last.fingerprint256',
  "keys/plaid-keys.ts: property(jwk, 'kid') !== kid",
  'keys/plaid-keys.ts: text.indexOf(separator)',
  'keys/remote-keys.ts: entries === this.others',
  'keys/remote-keys.ts: this.trusted.has(name)',
  'mac-source.ts: headers.includes(one.toLowerCase())',
  'option-names.ts: known.includes(name)',
  'providers/braintree.ts: name === publicKey',
  "providers/convoy.ts: ['SHA256', 'SHA512'].includes(hash)",
  "providers/convoy.ts: ['hex', 'base64'].includes(encoding)",
  "providers/convoy.ts: ['simple', 'advanced'].includes(mode)",
  'providers/drone.ts: parameters.has(name)',
  'providers/hook0.ts: names.includes(name.toLowerCase())',
  'providers/hook0.ts: parts.has(name)',
  "providers/hubspot.ts: ['v1', 'v2', 'v3'].includes(version)",
  "providers/monday.ts: claims['aud'] !== audience",
  'providers/plaid.ts: JSON.stringify(dedupe).toLowerCase().includes(HEADER.toLowerCase())',
  "providers/sns.ts: body.at('SignatureVersion') !== pinned",
  'providers/twilio.ts: algorithm !== pinned',
  'signing/digest.ts: bytes.toString(encoding) === text',
  "signing/jws.ts: header['alg'] !== algorithm",
  'signing/secret-check.ts: PLACEHOLDERS.has(letters)',
  'signing/secret-check.ts: secret.trim() !== secret',
  'signing/signature-text.ts: key === format.signature',
  'signing/signature-text.ts: key === format.timestamp',
  'signing/signature-text.ts: part.startsWith(`${version},`)',
  'signing/signature-text.ts: value.startsWith(prefix)',
  'mac-source.ts: part.name === name',
  'signing/unbelieved-body.ts: this.names.has(member[0])',
  'signing/unbelieved-body.ts: one === decoded',
  'signing/unbelieved-body.ts: one === name',
]);

/** With the handshake, which is given the secrets too. */
const files = [...readdirSync('src/sources', { recursive: true, encoding: 'utf8' }), VERIFIER]
  .filter((file) => file.endsWith('.ts'))
  .toSorted();

function sourceText(file: string): string {
  return readFileSync(join('src/sources', file), 'utf8');
}

const EQUALITY = new Set([
  ts.SyntaxKind.EqualsEqualsToken,
  ts.SyntaxKind.EqualsEqualsEqualsToken,
  ts.SyntaxKind.ExclamationEqualsToken,
  ts.SyntaxKind.ExclamationEqualsEqualsToken,
]);
const LOOKS = /^(?:includes|indexOf|lastIndexOf|has|startsWith|endsWith|localeCompare|search|match)$/;

/** Comparisons of two values that are both not constant. */
function comparisons(file: string): string[] {
  const found: string[] = [];
  const look = (node: ts.Node): void => {
    if (isComparison(node)) found.push(node.getText());
    ts.forEachChild(node, look);
  };
  look(ts.createSourceFile(file, sourceText(file), ts.ScriptTarget.Latest, true));
  return found;
}

function isComparison(node: ts.Node): boolean {
  if (ts.isBinaryExpression(node))
    return EQUALITY.has(node.operatorToken.kind) && !isConstant(node.left) && !isConstant(node.right);
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return false;
  const [first] = node.arguments;
  return LOOKS.test(node.expression.name.text) && first !== undefined && !isConstant(first);
}

/** A literal, a constant by its name, a length or a kind. */
function isConstant(node: ts.Node): boolean {
  if (ts.isIdentifier(node)) return node.text === 'undefined' || /^[A-Z][A-Z_]*$/.test(node.text);
  if (ts.isPropertyAccessExpression(node)) return node.name.text === 'length';
  return (
    ts.isLiteralExpression(node) ||
    ts.isTypeOfExpression(node) ||
    ts.isPrefixUnaryExpression(node) ||
    [ts.SyntaxKind.NullKeyword, ts.SyntaxKind.TrueKeyword, ts.SyntaxKind.FalseKeyword].includes(node.kind)
  );
}
