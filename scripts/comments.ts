import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { sentenceFaults, type Turn } from './prose.js';

/** Turns of phrase that only comments are held to: readers of code have no context around them. */
const TURNS: readonly Turn[] = [[/\bsomebody\b/i, 'name the process, the person or the code']];

/** The files whose comments are checked. */
export function commentedFiles(): string[] {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' });
  return files.filter((file) => file.endsWith('.ts')).map((file) => join('src', file));
}

/** Sentences of a file's comments that must be said more plainly, as `file:line: why`. */
export function commentFaults(file: string, text: string): string[] {
  return commentsOf(text).flatMap(({ at, prose }) =>
    paragraphs(prose)
      .flatMap((paragraph) => sentenceFaults(paragraph, TURNS))
      .map((fault) => `${file}:${lineAt(text, at)}: ${fault}`),
  );
}

interface Comment {
  readonly at: number;
  readonly prose: string;
}

/** The comments of a file. Adjacent lines of `//` are one comment. */
function commentsOf(text: string): Comment[] {
  const ranges = new Map<number, ts.CommentRange>();
  const visit = (node: ts.Node): void => {
    const before = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [];
    const behind = ts.getTrailingCommentRanges(text, node.getEnd()) ?? [];
    for (const range of [...before, ...behind]) ranges.set(range.pos, range);
    for (const child of node.getChildren()) visit(child);
  };
  visit(ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest, true));
  const comments: (Comment & { end: number })[] = [];
  for (const { pos, end, kind } of [...ranges.values()].sort((a, b) => a.pos - b.pos)) {
    const prose = proseOf(text.slice(pos, end));
    const last = comments.at(-1);
    const joins =
      kind === ts.SyntaxKind.SingleLineCommentTrivia && /^\n[ ]*$/.test(text.slice(last?.end, pos));
    if (joins) comments.splice(-1, 1, { at: last!.at, prose: `${last!.prose}\n${prose}`, end });
    else comments.push({ at: pos, prose, end });
  }
  return comments;
}

/** A comment without its marks. */
function proseOf(comment: string): string {
  const inner = comment.replace(/^\/\/|^\/\*\*?|\*\/$/g, '');
  return inner.replaceAll(/^[ ]*\*[ ]?/gm, '').trim();
}

/** Tags, items of lists and rows of tables stand for themselves. */
function paragraphs(prose: string): string[] {
  return prose
    .split(/\n\s*\n|\n\s*(?=[-|] ?)|(?:^|\s)(?=@(?:param|returns|throws|default|see)\b)/)
    .filter((paragraph) => !paragraph.startsWith('|'))
    .map((paragraph) => paragraph.replace(/^@(?:param \S+|\w+)\s*/, '').replaceAll(/`[^`]*`/g, 'code'));
}

function lineAt(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}
