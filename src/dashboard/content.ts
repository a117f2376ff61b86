import { withoutPart } from '../core/event.js';

/** Stored bytes as the page gets them: text where they are text, base64 where not, and no more than it can show. */
export interface Content {
  readonly bytes: number;
  readonly encoding: 'utf8' | 'base64';
  readonly text: string;
  /** There is more than `text` holds; a download has it all. */
  readonly cut: boolean;
}

const SHOWN_BYTES = 512 * 1024;

export function contentOf(bytes: Buffer): Content {
  const shown = bytes.subarray(0, SHOWN_BYTES);
  const cut = shown.length < bytes.length;
  if (!isUtf8(shown, cut))
    return { bytes: bytes.length, encoding: 'base64', text: shown.toString('base64'), cut };
  const text = shown.toString('utf8');
  return { bytes: bytes.length, encoding: 'utf8', text: cut ? withoutPart(text) : text, cut };
}

function isUtf8(bytes: Buffer, cut: boolean): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });
    return true;
  } catch {
    return false;
  }
}
