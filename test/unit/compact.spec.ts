import { runInNewContext } from 'node:vm';
import { compact } from '../../scripts/compact.js';

describe('compact code means what it meant', () => {
  it.each([
    ['words', 'var a = 1; typeof a', 'number'],
    ['a number and a point', '1 .toString()', '1'],
    ['two minus signs', 'var a = 1; a - -a', 2],
    ['a plus before a plus', 'var a = 1; a + +a', 2],
    ['a minus before a decrement', 'var a = 1; a - --a', 1],
    ['a division before a regex', 'var a = 4; a / /(?:)/.lastIndex', Infinity],
    ['a regex before a word', `/a/ in { '/a/': 1 }`, true],
    ['a condition before a point', 'true ? .5 : 1', 0.5],
    ['a text with blanks', `'a  b' + "c  d"`, 'a  bc  d'],
    ['a template with blanks', '`a  ${1 + 1}  b`', 'a  2  b'],
    ['a template with lines', '`a\n\n  b`', 'a\n\n  b'],
    ['lines without a semicolon', 'var a = 1\nvar b = a\n++a\nb', 1],
    ['comments', 'var a = 1; /* one */ a /* two */ + a // three', 2],
    ['a comment of several lines where a line ends', 'var f = () => { return /*\n*/ 1 }; f()', undefined],
  ])('%s', (_what, code, value) => {
    expect(runInNewContext(code)).toEqual(value);
    expect(runInNewContext(compact(code))).toEqual(value);
  });

  it('loses its blanks and keeps its lines', () => {
    expect(compact('if (a) {\n    b( 1 , 2 );\n}\n')).toBe('if(a){\nb(1,2);\n}\n');
  });
});
