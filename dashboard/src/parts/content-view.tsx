import { useMemo, useState } from 'preact/hooks';
import { bytes } from '../format.ts';
import { looksLikeJson, prettyJson, visible } from '../text.ts';
import type { Content } from '../types.ts';

const STEP = 100_000;

/** Content that others sent: as text, whatever it holds, and no more of it at once than a browser can lay out. */
export function ContentView({ content, label }: { content: Content; label: string }) {
  const isJson = content.encoding === 'utf8' && looksLikeJson(content.text);
  const [pretty, setPretty] = useState(isJson);
  const [max, setMax] = useState(STEP);
  const shown = useMemo(() => {
    if (pretty) return prettyJson(content.text, max);
    return { text: content.text.slice(0, max), cut: content.text.length > max };
  }, [content, pretty, max]);
  return (
    <div class="content">
      <div class="content-bar">
        {isJson && (
          <div class="tabs" role="group" aria-label="Show as">
            <button type="button" aria-pressed={pretty} onClick={() => setPretty(true)}>
              Pretty
            </button>
            <button type="button" aria-pressed={!pretty} onClick={() => setPretty(false)}>
              Raw
            </button>
          </div>
        )}
        <span class="faint">
          {bytes(content.bytes)}
          {content.encoding === 'base64' && ', not UTF-8, shown as base64'}
        </span>
      </div>
      <pre tabIndex={0} role="region" aria-label={label}>
        {visible(shown.text)}
      </pre>
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
