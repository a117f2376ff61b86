import { ConfigurationError, SignatureRejection } from '../../core/errors.js';
import type { WebhookRequest } from '../../core/request.js';

/**
 * The signed text of a vendor, as a template: `${timestamp}.${body}`. Names: `body`, `timestamp`, `id`, `method`, `url` (path and query as
 * received) and `header:NAME`.
 */
export type PayloadTemplate = string;

/** Values that the template's `${timestamp}` and `${id}` stand for. */
export interface PayloadValues {
  readonly timestamp?: string;
  readonly id?: string;
}
type Part = string | { readonly name: string };

/** A template taken apart once, at boot. */
export class SignedPayload {
  private readonly parts: readonly Part[];

  /** @throws ConfigurationError for an unknown name, or a template without `${body}` */
  constructor(readonly template: PayloadTemplate) {
    this.parts = parse(template);
    if (!this.uses('body'))
      throw new ConfigurationError(
        `signedPayload: expected a template with \${body}, received '${template}'. A signature that leaves the body out authenticates any body.`,
      );
  }

  uses(name: string): boolean {
    return this.parts.some((part) => typeof part !== 'string' && part.name === name);
  }

  /** Names of the headers that the signature covers, in lower case. */
  get headers(): string[] {
    return this.parts.flatMap((part) =>
      typeof part !== 'string' && part.name.startsWith('header:') ? [part.name.slice(7).toLowerCase()] : [],
    );
  }

  /**
   * The bytes to be signed, in order.
   * @throws SignatureRejection when a value is missing
   */
  render(request: WebhookRequest, values: PayloadValues): readonly (string | Buffer)[] {
    return this.parts.map((part) => (typeof part === 'string' ? part : valueOf(part.name, request, values)));
  }
}

function parse(template: string): Part[] {
  // Odd positions are names: 'a${b}c' splits into a, b, c.
  return template.split(/\$\{([^}]*)\}/).flatMap((text, i): Part[] => {
    if (i % 2 === 0) return text === '' ? [] : [text];
    if (/^(?:body|timestamp|id|method|url|header:[!-~]+)$/.test(text)) return [{ name: text }];
    throw new ConfigurationError(
      `signedPayload: expected one of \${body}, \${timestamp}, \${id}, \${method}, \${url}, \${header:NAME}, received '\${${text}}'`,
    );
  });
}

function valueOf(name: string, request: WebhookRequest, values: PayloadValues): string | Buffer {
  if (name === 'body') return request.rawBody;
  if (name === 'method') return request.method;
  if (name === 'url') return request.url;
  if (name === 'timestamp') return present(values.timestamp, 'timestamp');
  if (name === 'id') return present(values.id, 'id');
  return present(request.headers.one(name.slice(7)), name);
}

function present(value: string | undefined, name: string): string {
  if (value === undefined || value === '')
    throw new SignatureRejection(
      'missing-signature',
      `the signature covers ${name}, and the request has none`,
    );
  return value;
}
