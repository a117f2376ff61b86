import { queryText } from '../../src/storage/postgres/query-text.js';

describe('a query as text for logs and error texts', () => {
  it.each([
    [`insert into log (what) values ('stray')`, `insert into log (what) values ('…')`],
    [`select 'it''s', 'b' from t`, `select '…', '…' from t`],
    [String.raw`select E'a\'b', e'c' from t`, `select '…', '…' from t`],
    [String.raw`select 'a\', 'b' from t`, `select '…', '…' from t`],
    [`select $$card$$, $q$a $$ b$q$ from t`, `select '…', '…' from t`],
    [`select $A$ x $a$ card $A$ from t`, `select '…' from t`],
    [
      `update t set n = 4242424242424242, m = 12345.67 where id = 1234`,
      `update t set n = '…', m = '…' where id = 1234`,
    ],
    [`select "it's" from "t" where a = 'b'`, `select "it's" from "t" where a = '…'`],
    [`select 1 -- don't\n, 'card' from t`, `select 1 \n, '…' from t`],
    [`/* don't */ select 'card' from t`, `select '…' from t`],
    [`select 'card`, `select '…'`],
    [`select $$card`, `select '…'`],
    [
      `select * from t_20240101 where id = $1 and n = $12345`,
      `select * from t_20240101 where id = $1 and n = $12345`,
    ],
  ])('%s', (query, text) => {
    expect(queryText(query)).toBe(text);
  });

  it('has no value that the cut has left half, and takes no time for one of megabytes', () => {
    expect(queryText(`select '${'card '.repeat(1_000_000)}' from t`)).toBe(`select '…'`);
    expect(queryText(`select ${'a, '.repeat(100)}'card'`)).toHaveLength(80);
    expect(queryText(`select ${`E'`.repeat(1_000_000)}`)).toMatch(/^select '…'/);
  });
});
