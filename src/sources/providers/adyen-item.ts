import { SignatureRejection } from '../../core/errors.js';
import { eachItem } from '../../core/json/json-ranges.js';
import { signedTextAt, UnbelievedJson } from '../signing/unbelieved-body.js';

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
const LIST = new Set(['notificationItems', 'NotificationRequestItem']);
const MEMBERS = new Set([...SIGNED.flatMap((path) => path.split('.')), 'additionalData', 'hmacSignature']);

/** The exact bytes of each `NotificationRequestItem`. Empty when the body has none. */
export function adyenItems(body: Buffer): Buffer[] {
  const list = new UnbelievedJson(body, LIST).rangeAt('notificationItems');
  const items: Buffer[] = [];
  for (const range of list === undefined ? [] : eachItem(body, list)) {
    if (items.length === MAX_ITEMS)
      throw new SignatureRejection('malformed-signature', `the body holds more than ${MAX_ITEMS} items`);
    const wrapper = body.subarray(...range);
    const item = new UnbelievedJson(wrapper, LIST).rangeAt('NotificationRequestItem');
    items.push(item === undefined ? wrapper : wrapper.subarray(...item));
  }
  return items;
}

/** The fields of an item that are read before it is verified. */
export const unbelievedItem = (slice: Buffer) => new UnbelievedJson(slice, MEMBERS);

/** The text that Adyen signs for an item: eight fields joined by colons, a missing one empty, nothing escaped. */
export function adyenSignedText(item: UnbelievedJson): string {
  return SIGNED.map((path) => {
    const value = item.at(path);
    if (value === undefined || value === null) return '';
    if (typeof value === 'boolean') return String(value);
    const text = signedTextAt(item, path);
    if (text === undefined) throw new SignatureRejection('malformed-signature', `${path} is no text`);
    return text;
  }).join(':');
}
