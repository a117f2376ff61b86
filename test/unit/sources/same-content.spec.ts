import { isSameContent } from '../../../src/sources/events/same-content.js';

const same = (first: string, second: string, changes: readonly string[] = []) =>
  isSameContent(Buffer.from(first), Buffer.from(second), changes);

describe('whether two bodies say the same', () => {
  it.each<[string, string, readonly string[], boolean]>([
    ['{"a":1}', '{"a":1}', [], true],
    ['{"a":1,"b":2}', '{ "b": 2,\n"a": 1 }', [], true],
    ['{"a":1}', '{"a":2}', [], false],
    ['{"a":1}', '{"a":1,"b":null}', [], false],
    ['{"a":1,"n":1}', '{"a":1,"n":2}', ['n'], true],
    ['{"a":1,"n":1}', '{"a":1}', ['n'], true],
    ['{"a":1,"n":1}', '{"a":2,"n":2}', ['n'], false],
    ['{"a":{"n":1,"m":1}}', '{"a":{"n":2,"m":1}}', ['a.n'], true],
    ['{"a":{"n":1,"m":1}}', '{"a":{"n":2,"m":2}}', ['a.n'], false],
    ['{"n":1,"a":{"n":1}}', '{"n":1,"a":{"n":2}}', ['n'], false],
    ['{"a.n":1}', '{"a.n":2}', ['a.n'], true],
    ['{"n":9007199254740992}', '{"n":9007199254740993}', [], false],
    ['\ufeff{"a":1}', '{"a":1}', [], true],
    ['a=1', 'a=1', [], true],
    ['a=1', 'a=2', ['a'], false],
    ['{"a":', '{"a":1}', ['a'], false],
  ])('%s and %s, but for %j: %s', (first, second, changes, expected) => {
    expect(same(first, second, changes)).toBe(expected);
  });

  it('is asked of the bytes where they are too deep', () => {
    const deep = (n: number) => `${'['.repeat(100)}${n}${']'.repeat(100)}`;
    expect(same(deep(1), deep(1))).toBe(true);
    expect(same(deep(1), deep(2))).toBe(false);
  });
});
