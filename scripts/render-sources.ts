import type { Provider } from '../src/core/provider.js';
import * as catalogue from '../src/sources/index.js';
import { providersByName } from '../src/sources/index.js';
import { signers, sourceOf } from '../test/support/signers/index.js';

const START =
  '<!-- The table and the list are made by `npm run docs:sources`: change the providers, not the lines below. -->';
const END = '<!-- End of what is made. -->';

/**
 * The text of docs/sources.md with what is made from the providers put in anew; the rest is written by hand.
 * @throws Error when the marks are gone
 */
export function renderSources(current: string): string {
  const start = current.indexOf(START);
  const end = current.indexOf(END);
  if (start < 0 || end < start)
    throw new Error(`docs/sources.md: expected the lines '${START}' and '${END}'`);
  return `${current.slice(0, start + START.length)}\n\n${table()}\n\n### Notes\n\n${notes()}\n\n${current.slice(end)}`;
}

function providers(): { name: string; provider: Provider }[] {
  return [...providersByName.keys()]
    .filter((name) => name !== 'hmac')
    .toSorted()
    .map((name) => {
      const signer = signers.find((one) => one.provider === name);
      if (signer === undefined) throw new Error(`no sample options for '${name}'`);
      return { name, provider: sourceOf(signer).provider };
    });
}

function table(): string {
  const rows = providers().map(({ name, provider }) =>
    row([
      `[${name}](${provider.docs})<br>\`${functionOf(name)}()\``,
      provider.scheme,
      window(provider),
      `${provider.notes?.id ?? 'yours'}<br>${idIsSigned(name, provider)}`,
      retries(provider),
      provider.notes?.stops ?? '',
      provider.notes?.handshake ?? '—',
      redelivery(provider),
    ]),
  );
  return [
    row([
      'provider',
      'scheme',
      'window',
      'event id',
      'retries',
      'answers other than 2xx',
      'handshake',
      'redelivery',
    ]),
    row(Array.from({ length: 8 }, () => '---')),
    ...rows,
  ].join('\n');
}

function notes(): string {
  return providers()
    .flatMap(({ name, provider: { notes: text } }) => {
      const parts = [
        text?.more,
        text?.unconfirmed === undefined
          ? undefined
          : `Not confirmed by a page of the vendor: ${text.unconfirmed}`,
      ].filter((part) => part !== undefined);
      return parts.length === 0 ? [] : [`- **${name}**: ${parts.map((part) => sentence(part)).join(' ')}`];
    })
    .join('\n');
}

function window({ toleranceMs, timeUnit }: Provider): string {
  const width = toleranceMs === undefined ? '—' : `±${duration(Math.ceil(toleranceMs / 1000) * 1000)}`;
  return timeUnit === undefined ? width : `${width}<br>${timeUnit}`;
}

function idIsSigned(name: string, provider: Provider): string {
  // Their options ask for it.
  if (name === 'dropbox' || name === 'plaid') return '';
  return provider.signed.id ? 'signed' : '**not signed**';
}

function retries({ retries: { automatic, windowMs, manualResendMs }, ackTimeoutMs }: Provider): string {
  const window = windowMs === undefined ? 'window unknown' : `for ${duration(windowMs)}`;
  return [
    automatic ? window : 'none',
    manualResendMs === undefined ? undefined : `resent by hand for ${duration(manualResendMs)}`,
    ackTimeoutMs === undefined ? undefined : `answer within ${duration(ackTimeoutMs)}`,
  ]
    .filter((part) => part !== undefined)
    .join('; ');
}

function redelivery({ retries, signed, notes: text }: Provider): string {
  return [
    conflicts(retries, signed.id),
    retries.sameTimestamp === true ? 'with the first time' : undefined,
    text?.unstable,
  ]
    .filter((part) => part !== undefined)
    .join('; ');
}

/** What other bytes under a known id are. */
function conflicts({ sameBytes, changes }: Provider['retries'], isIdSigned: boolean): string {
  if (sameBytes) return 'the same bytes, others are a conflict';
  if (!isIdSigned || changes === undefined) return 'other bytes are counted';
  const but = changes.length === 0 ? '' : ` but for ${changes.map((path) => `\`${path}\``).join(', ')}`;
  return `other content is a conflict${but}`;
}

/** What the package exports the provider as. */
function functionOf(name: string): string {
  const found = Object.entries(catalogue).find(([, value]) => Object.is(value, providersByName.get(name)));
  if (found === undefined) throw new Error(`'${name}' is not exported`);
  return found[0];
}

function duration(ms: number): string {
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
  ] as const)
    if (ms >= size && (ms % size === 0 || ms >= 2 * size || unit === 'min'))
      return `${Math.round((ms / size) * 10) / 10} ${unit}`;
  return `${ms / 1000} s`;
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
