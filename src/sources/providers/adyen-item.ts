import type { BodyReader } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { itemRanges, rangeAt } from '../events/json-ranges.js';
import { signedTextAt } from '../signing/unbelieved-body.js';

/** Most items of one notification; Adyen sends one, seldom a few. */
const MAX_ITEMS = 100;
const SIGNED = [
  'pspReference',
  'originalReference',
  'merchantAccountCode',
  'merchantReference',
  'amount.value',
  'amount.currency',
  'eventCode',
  'success',
];

/** The exact bytes of each `NotificationRequestItem`. Empty when the body has none. */
export function adyenItems(body: BodyReader): Buffer[] {
  const items = body.at('notificationItems');
  if (!Array.isArray(items)) return [];
  if (items.length > MAX_ITEMS)
    throw new SignatureRejection('malformed-signature', `the body holds ${items.length} items`);
  return (itemRanges(body.bytes, 'notificationItems') ?? []).map((range) => {
    const wrapper = body.bytes.subarray(...range);
    const item = rangeAt(wrapper, 'NotificationRequestItem');
    return item === undefined ? wrapper : wrapper.subarray(...item);
  });
}

/** What Adyen signs of an item: eight fields joined by colons, a missing one empty, nothing escaped. */
export function adyenSignedText(item: BodyReader): string {
  return SIGNED.map((path) => {
    const value = item.at(path);
    if (value === undefined || value === null) return '';
    if (typeof value === 'boolean') return String(value);
    const text = signedTextAt(item, path);
    if (text === undefined) throw new SignatureRejection('malformed-signature', `${path} is no text`);
    return text;
  }).join(':');
}
