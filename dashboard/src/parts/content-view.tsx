import { useMemo, useState } from 'preact/hooks';
import { bytes } from '../format.ts';
import { hexOf, looksLikeJson, markedText, prettyJson, visible } from '../text.ts';
import type { Content } from '../types.ts';

const STEP = 100_000;
/** Longer strings of JSON are cut until somebody asks for them. */
const LONG_STRING = 2_000;
type Look = 'pretty' | 'raw' | 'hex';
const NAMES: Record<Look, string> = { pretty: 'Pretty', raw: 'Raw', hex: 'Hex' };

/** Content that others sent: as text, whatever it holds, and no more of it at once than a browser can lay out. */
export function ContentView({ content, label }: { content: Content; label: string }) {
  const bytesOf = useMemo(() => bytesIn(content), [content]);
  const text = useMemo(() => (content.encoding === 'utf8' ? content.text : markedText(bytesOf)), [content]);
  const isJson = looksLikeJson(text);
  const [look, setLook] = useState<Look>(isJson ? 'pretty' : 'raw');
  const [max, setMax] = useState(STEP);
  const [whole, setWhole] = useState(false);
  const shown = useMemo(() => {
    if (look === 'hex') return { ...hexOf(bytesOf, max / 8), shortened: false };
    if (look === 'pretty') return prettyJson(text, max, whole ? Infinity : LONG_STRING);
    return { text: text.slice(0, max), cut: text.length > max, shortened: false };
  }, [content, look, max, whole]);
  return (
    <div class="content">
      <div class="content-bar">
        <div class="tabs" role="group" aria-label="Show as">
          {(['pretty', 'raw', 'hex'] as const).map(
            (one) =>
              (one !== 'pretty' || isJson) && (
                <button key={one} type="button" aria-pressed={look === one} onClick={() => setLook(one)}>
                  {NAMES[one]}
                </button>
              ),
          )}
        </div>
        <span class="faint">
          {bytes(content.bytes)}
          {content.encoding === 'base64' && ', not all UTF-8: other bytes are marked'}
        </span>
      </div>
      <pre tabIndex={0} role="region" aria-label={label}>
        {visible(shown.text)}
      </pre>
      {shown.shortened && (
        <button type="button" onClick={() => setWhole(true)}>
          Show long strings whole
        </button>
      )}
      {shown.cut ? (
        <button type="button" onClick={() => setMax(max + STEP * 2)}>
          Show more
        </button>
      ) : (
        content.cut && <p class="hint">The rest is in the download.</p>
      )}
    </div>
  );
}

function bytesIn({ encoding, text }: Content): Uint8Array {
  return encoding === 'utf8'
    ? new TextEncoder().encode(text)
    : Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
