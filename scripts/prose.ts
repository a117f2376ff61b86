import { readdirSync } from 'node:fs';
import { TextlintKernel, type TextlintKernelOptions } from '@textlint/kernel';
import markdown from '@textlint/textlint-plugin-markdown';
import type { AnyTxtNode } from '@textlint/ast-node-types';
import type { TextlintRuleModule } from '@textlint/types';
import { split } from 'sentence-splitter';
import type { CodeText } from './code-texts.js';

/** Longest sentence, in words. STYLE asks for about 20. */
export const MAX_WORDS = 30;

/** A turn of phrase that has to be read twice, and the plain way to say it. */
export type Turn = readonly [RegExp, string];

export const TURNS: readonly Turn[] = [
  [/\b(?:who(?:m)?ever|whatever)\b/i, 'name the thing: the sender, the process, the operator'],
  [/\bof which\b/i, 'name the thing again, in a sentence of its own'],
  [/^What\b(?!.*\?)/, 'begin with the name of the thing'],
  [/^(?:Who|Those who)\b(?!.*\?)/, 'begin with the name of the person or the process'],
  [/[,;] (?:and )?(?:what|who) (?!\w+ to\b)/, 'name the thing or the person'],
  [/\bnobody\b/i, "say which person or process: 'an unknown name'"],
  [
    /\bwhat (?:came|comes|goes|runs|waits|waited|was|others)\b(?!.*\?)/,
    'name the thing that comes, runs or waits',
  ],
  [/\btold of\b/i, 'say which call or log line shows it'],
  [
    /\b(?:can(?:not)?|could(?: not)?) be had\b/i,
    "say what failed: 'is not available', 'could not be loaded'",
  ],
  [/(?<!\bthere )\b(?:is|are|that) none\b/i, "say what it is: 'without a valid Date'"],
  [/\bunset is\b/i, 'say what happens when the variable is not set'],
  [/\b(?:is|are|be) told\b/i, 'say who receives what: the alert fires, the provider gets 200'],
  [/^Told\b/, 'give the sentence a subject: the alert fires once'],
  [/\bhad so\b/i, 'say how to get it: inject it'],
  [/\b(?:hang|hangs|hung) on\b/i, "use 'depends on' or 'is derived from'"],
  [/\blets? (?:it|them) be\b/i, 'say what the call does'],
  [/\bfell to half\b/i, 'say when the alert fires again'],
  [/\bstands? beside\b/i, 'say where the option is set'],
  [/\bis to (?!the\b)\w+/i, "use 'must' or the present tense"],
];

/** Pages whose prose is checked: the pages at the root, and every page of docs. */
export function prosePages(): string[] {
  const docs = readdirSync('docs').filter((name) => name.endsWith('.md'));
  return [
    'README.md',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...docs.map((name) => `docs/${name}`),
  ];
}

/** Sections that programs write, by the comments around them, and pages that are made whole. Notes of providers are checked. */
const MADE =
  /<!-- The table and the list are made.*?-->[^]*?(?=### Notes)|<!-- (?:figures:|tables:|desk|steps|chaos|clocks|stops|promotions|attack|soak|races|mutants).*?-->[^]*?<!-- (?:end of figures|end|\/\w+) -->/g;
const MADE_PAGES = new Set(['docs/requirements.md']);

/** The text with the sections that programs write emptied, line by line, so that places stay right. */
export function ownText(page: string, text: string): string {
  if (MADE_PAGES.has(page)) return '';
  return text.replace(MADE, (section) => section.replaceAll(/[^\n]/g, ''));
}

const rule: TextlintRuleModule = (context) => {
  const check = (node: AnyTxtNode) => {
    for (const fault of sentenceFaults(plainText(node))) context.report(node, new context.RuleError(fault));
  };
  return { Paragraph: check, TableCell: check };
};

/** The faults of a text's sentences. @param more turns besides `TURNS` */
export function sentenceFaults(text: string, more: readonly Turn[] = []): string[] {
  return sentencesOf(text).flatMap((sentence) => faultsOf(sentence, [...TURNS, ...more]));
}

/** The splitter takes '503. A' for one sentence, as the number of an item of a list. */
function sentencesOf(text: string): string[] {
  const whole = text.replaceAll(/\s+/g, ' ').replaceAll(/\d+(?=\. \p{Lu})/gu, 'number');
  return split(whole).flatMap(({ type, raw }) => (type === 'Sentence' ? [raw] : []));
}

/** A text of the code: its parts between colons and semicolons count as sentences. */
export function codeFaults({ file, line, text }: CodeText): string[] {
  return sentencesOf(text.replaceAll(/`[^`]*`/g, 'code'))
    .flatMap((sentence) => sentence.split(/[:;] /))
    .flatMap((sentence) => faultsOf(sentence, TURNS).map((fault) => `${file}:${line}: ${fault}`));
}

function faultsOf(sentence: string, all: readonly Turn[]): string[] {
  const words = sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
  const long = words > MAX_WORDS ? [`${words} words, at most ${MAX_WORDS}: '${sentence.slice(0, 60)}…'`] : [];
  const turns = all.flatMap(([turn, plain]) => {
    const [found] = turn.exec(sentence) ?? [];
    return found === undefined ? [] : [`'${found}': ${plain}`];
  });
  return [...long, ...turns];
}

/** A paragraph as it is read: code is one word, and a link is its text. */
function plainText(node: AnyTxtNode): string {
  if (node.type === 'Code') return 'code';
  if ('children' in node) return node.children.map((child: AnyTxtNode) => plainText(child)).join('');
  return 'value' in node && node.type !== 'Html' ? node.value : ' ';
}

const options: Pick<TextlintKernelOptions, 'ext' | 'plugins' | 'rules'> = {
  ext: '.md',
  plugins: [{ pluginId: 'markdown', plugin: markdown.default }],
  rules: [{ ruleId: 'plain-words', rule }],
};

/** Sentences of a page that need plainer words, as `page:line: why`. */
export async function proseFaults(page: string, text: string): Promise<string[]> {
  const { messages } = await new TextlintKernel().lintText(ownText(page, text), {
    ...options,
    filePath: page,
  });
  return messages.map(({ loc, message }) => `${page}:${loc.start.line}: ${message}`);
}
