import { BodyReader } from '../../core/body.js';
import { errorText } from '../../core/log/log.js';
import type { Provider } from '../../core/provider.js';
import { RequestHeaders } from '../../core/request.js';
import type { StoredEvent } from '../../storage/stored-event.js';

/** How forwarded events are signed. */
export interface ForwardSignature {
  /** One of the target's secrets, in the form of the provider. It is neither stored nor logged. */
  readonly secret: string;
  /** The options of the source, for `hmac` and `convoy`, whose scheme depends on them. @default {} */
  readonly options?: Readonly<Record<string, unknown>>;
}

export interface Resigned {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Said of what is signed inside, too. */
const CANNOT = 'it cannot be signed anew, like each item of a body with several events';
/** Which headers hold the id and the type is seen by them. */
const ID = 'evt_0f5c1d6e8a4b';
const TYPE = 'type.0f5c1d6e8a4b';

/**
 * Signs an event now as its provider does, under its own id. A text says why that cannot be: the provider signs with a key that it alone
 * has, or this is a part of a body, or the scheme is another.
 */
export async function signedAnew(
  provider: Provider,
  { headers: stored, eventId, type }: StoredEvent,
  body: Buffer,
  isEdited: boolean,
  url: URL,
  { secret, options = {} }: ForwardSignature,
): Promise<Resigned | string> {
  const { vendorSigners } = await import('../../sources/signers/sign-webhook.js');
  const signer = vendorSigners.get(provider.name);
  if (signer === undefined) return `only '${provider.name}' itself can sign its events`;
  if (signer.makeKeys !== undefined) return `'${provider.name}' signs with a key of its own`;
  try {
    const sign = (id: string, eventType: string) => {
      const at = Math.floor(Date.now() / 1_000);
      const named = { id, type: eventType, at, url: url.href };
      return signer.sign(body, { ...named, keys: { secret }, headers: stored, options });
    };
    const marked = Object.entries(sign(ID, TYPE).headers);
    const keptAs = (mark: string) =>
      stored[marked.find(([, value]) => value === mark)?.[0].toLowerCase() ?? ''];
    const signed = sign(keptAs(ID) ?? eventId, keptAs(TYPE) ?? type);
    const headers = { ...stored };
    for (const [name, value] of Object.entries(signed.headers)) headers[name.toLowerCase()] = value;
    if (stored['content-type'] !== undefined) headers['content-type'] = stored['content-type'];
    const resigned = { headers, body: signed.body ?? body };
    // The URL is signed as the target knows it.
    const ids = signer.signsUrl === true ? undefined : await idsOf(provider, resigned, url, secret);
    if (ids?.length === 0 || (!isEdited && ids?.includes(eventId) === false))
      return `${CANNOT}: the signed request would be another event`;
    return resigned;
  } catch (error) {
    return `${CANNOT}: ${errorText(error)}`;
  }
}

/**
 * The events that a receiver like this one would find.
 * @throws SignatureRejection, EventIdUnusable
 */
async function idsOf(provider: Provider, { headers, body }: Resigned, url: URL, secret: string) {
  const request = {
    method: 'POST',
    url: url.pathname + url.search,
    headers: RequestHeaders.from(headers),
    rawBody: body,
  };
  await provider.verify(request, [secret]);
  return provider.identify(request, new BodyReader(body)).map(({ id }) => id);
}
