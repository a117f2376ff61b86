import type { EffectMessage, EffectReport } from './effect-transport.js';

/**
 * The fields of a message without its payload, as JSON of printable ASCII: it goes into a header, and an event's id may hold any text.
 * The payload is the body, byte for byte: inside of JSON, its quotation marks would need two bytes each.
 */
export function headOf({ payload: _payload, ...head }: EffectMessage): string {
  return JSON.stringify(head).replace(
    /[^ -~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export function messageOf(head: string, body: Uint8Array): EffectMessage {
  return { ...(JSON.parse(head) as Omit<EffectMessage, 'payload'>), payload: textOf(body) };
}

export const textOf = (body: Uint8Array) => Buffer.from(body.buffer, body.byteOffset, body.length).toString();

/** A report as it came: the relay checks it. Bytes that are no JSON come as text, so that the relay refuses them once, and not each second. */
export function reportOf(body: Uint8Array): EffectReport {
  const text = textOf(body);
  try {
    return JSON.parse(text) as EffectReport;
  } catch {
    const unreadable: unknown = text;
    return unreadable as EffectReport;
  }
}
