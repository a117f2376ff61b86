/** The same content as other software would have written it, with what that means. */
export interface BodyVariant {
  readonly what: string;
  readonly bytes: Buffer;
}

/**
 * How the bytes may have been before something rewrote them. A proxy, a gateway or a body parser that reads JSON and writes it
 * again keeps the meaning and loses the bytes, and with them the signature.
 */
export function bodyVariants(body: Buffer): BodyVariant[] {
  const text = body.toString('utf8');
  const variants = [...lineVariants(text), ...jsonVariants(text)];
  const seen = new Set([text]);
  return variants
    .filter(([, variant]) => !seen.has(variant) && seen.add(variant))
    .map(([what, variant]) => ({ what, bytes: Buffer.from(variant) }));
}

function lineVariants(text: string): [string, string][] {
  return [
    ['without the white space around it', text.trim()],
    ['with a line break at its end', `${text}\n`],
    [
      'with line breaks of the other kind',
      text.includes('\r\n') ? text.replaceAll('\r\n', '\n') : text.replaceAll('\n', '\r\n'),
    ],
  ];
}

function jsonVariants(text: string): [string, string][] {
  try {
    const value: unknown = JSON.parse(text);
    const compact = JSON.stringify(value);
    const spaced = JSON.stringify(value, null, 1)
      .replace(/,\n\s*/g, ', ')
      .replace(/\n\s*/g, '');
    return [
      ['as compact JSON', compact],
      ['as compact JSON with a line break at its end', `${compact}\n`],
      ['as JSON with spaces after colons and commas (as Python writes it)', spaced],
      ['as compact JSON in ASCII only', ascii(compact)],
      ['as JSON with spaces, in ASCII only (as Python writes it)', ascii(spaced)],
      ['as compact JSON with escaped slashes (as PHP writes it)', compact.replaceAll('/', '\\/')],
      [
        'as compact JSON in ASCII only with escaped slashes (as PHP writes it)',
        ascii(compact).replaceAll('/', '\\/'),
      ],
      ['as JSON indented by 2', JSON.stringify(value, null, 2)],
      ['as JSON indented by 4', JSON.stringify(value, null, 4)],
    ];
  } catch {
    // Not JSON, or nested so deeply that writing it overflows the stack.
    return [];
  }
}

function ascii(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
