import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { useMeta } from '../app-context.ts';
import type { FilteredList, Meta } from '../types.ts';

const STATES = {
  events: ['processed', 'pending', 'dead', 'parked', 'skipped', 'superseded', 'erased'],
  effects: ['pending', 'done', 'parked', 'dead', 'cancelled', 'erased'],
};
const PLACEHOLDERS: Record<FilteredList, string> = {
  events: 'source:stripe type:invoice.* state:dead after:2h — or an id',
  effects: 'effect:mail state:dead,parked attempts:>3 — or an id',
  dead: 'handler:stripe/* error:timeout — or text of an error',
  rejections: 'source:stripe reason:wrong-signature — or text of the explanation',
  audit: 'by:ann@example.com action:revive — or text of the target',
};
const LABELS: Record<FilteredList, string> = {
  events: 'events',
  effects: 'effects',
  dead: 'dead letters',
  rejections: 'rejections',
  audit: 'the audit',
};
const TIMES = ['5m', '1h', '2h', '24h', '7d'];

interface Suggestion {
  readonly text: string;
  readonly hint: string;
}

/** The filter with suggestions for the word under the caret. Enter searches; Tab or Enter on a suggestion takes it. */
export function FilterBox(props: {
  list: FilteredList;
  value: string;
  types?: string[];
  onChange: (value: string) => void;
}) {
  const meta = useMeta();
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(props.value);
  const [open, setOpen] = useState(false);
  const [picked, setPicked] = useState(-1);
  useEffect(() => setText(props.value), [props.value]);

  const word = /\S*$/.exec(text)![0];
  const suggestions = open ? suggest(word, meta, props.list, props.types ?? []) : [];
  const search = (value: string) => {
    setOpen(false);
    setPicked(-1);
    props.onChange(value.trim());
  };
  const take = (suggestion: Suggestion) => {
    const next = text.slice(0, text.length - word.length) + suggestion.text;
    // A key alone waits for its value; a value is complete.
    const complete = !suggestion.text.endsWith(':');
    setText(complete ? `${next} ` : next);
    setPicked(-1);
    setOpen(!complete);
    if (complete) props.onChange(next.trim());
    input.current?.focus();
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setOpen(true);
      if (suggestions.length > 0)
        setPicked(
          (before) =>
            (before + step + suggestions.length + (before < 0 && step < 0 ? 1 : 0)) % suggestions.length,
        );
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const chosen = suggestions[picked];
      if (chosen === undefined) search(text);
      else take(chosen);
    } else if (event.key === 'Tab' && picked >= 0 && suggestions[picked]) {
      event.preventDefault();
      take(suggestions[picked]);
    } else if (event.key === 'Escape') {
      setOpen(false);
      setPicked(-1);
    }
  };
  const listed = suggestions.length > 0;
  return (
    <div class="filter" role="search">
      <input
        ref={input}
        id="filter"
        type="text"
        role="combobox"
        aria-label={`Filter ${LABELS[props.list]}`}
        aria-expanded={listed}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={picked >= 0 ? `${id}-${picked}` : undefined}
        placeholder={PLACEHOLDERS[props.list]}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        value={text}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setOpen(true);
          setPicked(-1);
        }}
        onKeyDown={key}
      />
      {text !== '' && (
        <button type="button" class="quiet clear" aria-label="Clear the filter" onClick={() => search('')}>
          ✕
        </button>
      )}
      <ul id={`${id}-list`} role="listbox" aria-label="Suggestions" hidden={!listed}>
        {suggestions.map((suggestion, index) => (
          <li
            key={suggestion.text}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === picked}
            onPointerDown={(event) => {
              event.preventDefault();
              take(suggestion);
            }}
          >
            <code>{suggestion.text}</code> <span class="faint">{suggestion.hint}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function suggest(typed: string, meta: Meta, list: FilteredList, types: string[]): Suggestion[] {
  const minus = typed.startsWith('-') ? '-' : '';
  const word = typed.slice(minus.length);
  const at = word.indexOf(':');
  if (at < 0) {
    return Object.entries(meta.filterKeys[list])
      .filter(([key]) => key.startsWith(word))
      .map(([key, hint]) => ({ text: `${minus}${key}:`, hint }));
  }
  const key = word.slice(0, at);
  const listed = word.slice(at + 1);
  const before = listed.slice(0, listed.lastIndexOf(',') + 1);
  const value = listed.slice(before.length);
  const values: Record<string, string[]> = {
    source: meta.sources,
    state: list === 'effects' ? STATES.effects : STATES.events,
    effect: meta.effects,
    after: TIMES,
    before: TIMES,
    type: [...new Set(types.flatMap((type) => [type, `${type.split('.')[0]}.*`]))].sort(),
  };
  return (values[key] ?? [])
    .filter((one) => one.startsWith(value) && one !== value)
    .slice(0, 10)
    .map((one) => ({
      text: `${minus}${key}:${before}${one}`,
      hint: key === 'after' || key === 'before' ? 'ago' : '',
    }));
}
