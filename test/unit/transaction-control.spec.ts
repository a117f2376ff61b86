import { controlIn, setsSession } from '../../src/storage/postgres/transaction-control.js';

describe('statements that are not a handler’s to send', () => {
  it.each([
    'COMMIT',
    'commit;',
    '  Commit work',
    'COMMIT AND CHAIN',
    "COMMIT PREPARED 'x'",
    'END',
    'end transaction',
    'ABORT',
    'ROLLBACK',
    'rollback work;',
    "ROLLBACK PREPARED 'x'",
    'BEGIN',
    'begin isolation level serializable',
    'START TRANSACTION',
    "PREPARE TRANSACTION 'x'",
    'DISCARD ALL',
    'RESET ALL',
    'reset all;',
    'RESET SESSION AUTHORIZATION',
    'SET SESSION statement_timeout = 0',
    'SET SESSION AUTHORIZATION other',
    'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY',
    'SAVEPOINT webhook_inline',
    'release savepoint "webhook_inline"',
    'RELEASE webhook_inline',
    'ROLLBACK TO webhook_inline',
    'ROLLBACK TRANSACTION TO SAVEPOINT webhook_checked',
    '-- why\nCOMMIT',
    '-- why\rCOMMIT',
    '/* a /* b */ c */ COMMIT',
    '/**/--\n/**/ROLLBACK',
    'ROLLBACK/* no */',
    ';;COMMIT',
    'SELECT 1; COMMIT',
    "SELECT ';'; COMMIT",
    "SELECT 'it''s;', E'\\';', \"a;b\", $$;$$, $t$;$$;$t$, $1; COMMIT",
    'SELECT 1 /* ; */; -- ;\n COMMIT; SELECT 2',
    'SAVEPOINT own; ROLLBACK',
    "SELECT 'e' ; SELECT 'x'; END",
    'INSERT INTO t VALUES (1); /* a */ ; prepare transaction $$x$$',
  ])('%j', (query) => {
    expect(controlIn(query, false)).toBeDefined();
  });

  it.each([
    '',
    '   ',
    '-- COMMIT',
    '/* COMMIT',
    'SELECT 1',
    "SELECT 'a; COMMIT'",
    "SELECT E'\\'; COMMIT'",
    'SELECT "x; COMMIT"',
    'SELECT $$; COMMIT $$',
    'SELECT $a$ $$; COMMIT; $a$; SELECT 2',
    'SELECT 1 -- ; COMMIT',
    'SELECT 1 /* ; COMMIT; /* ; */ COMMIT */',
    'SELECT commit FROM commits',
    'SAVEPOINT typeorm_1',
    'RELEASE SAVEPOINT typeorm_1',
    'ROLLBACK TO SAVEPOINT typeorm_1',
    'ROLLBACK WORK TO own',
    'SAVEPOINT own; RELEASE own',
    'PREPARE one AS SELECT 1',
    'SET LOCAL statement_timeout = 0',
    'SET TRANSACTION READ ONLY',
    'SET CONSTRAINTS ALL IMMEDIATE',
    'SET search_path = tenant',
    'RESET ROLE',
    'RESET search_path',
    "COMMENT ON TABLE t IS 'END; COMMIT'",
    'SELECT CASE WHEN true THEN 1\nEND; SELECT 1',
    "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS 'BEGIN; END; COMMIT'",
    "SELECT E'it''s \\\\', 'a\\'; SELECT '; COMMIT'",
    'WITH a AS (SELECT 1) SELECT * FROM a',
    'CREATE FUNCTION f() RETURNS void BEGIN ATOMIC SELECT 1; SELECT 2; END',
    'DO $$ BEGIN PERFORM 1; END $$',
  ])('lets through %j', (query) => {
    expect(controlIn(query, false)).toBeUndefined();
  });

  it('reads no more than the first word of a query with values, or with one statement', () => {
    expect(controlIn('SELECT $1; COMMIT', true)).toBeUndefined();
    expect(controlIn('COMMIT', true)).toBeDefined();
  });

  it.each(['x', "''", '\\\\'])('reads a text of megabytes, of %j, to its end', (part) => {
    const text = part.repeat(10_000_000);
    for (const quoted of [`'${text}'`, `E'${text}'`]) {
      expect(controlIn(`SELECT ';', ${quoted}; SELECT ';'`, false)).toBeUndefined();
      expect(controlIn(`SELECT ';', ${quoted}; COMMIT`, false)).toBe('COMMIT');
    }
  });
});

describe('settings that outlive the transaction', () => {
  it.each([
    ['SET search_path = tenant', true],
    ["/* a */ set time zone 'UTC'", true],
    ['SELECT 1; SET ROLE reader', true],
    ['RESET ROLE', true],
    ['RESET search_path', true],
    ["SELECT set_config('app.tenant', $1, false)", true],
    ["SELECT SET_CONFIG ('app.tenant', 'a', $1)", true],
    ['SET LOCAL search_path = tenant', false],
    ['SET/**/ local search_path = tenant', false],
    ['SET TRANSACTION READ ONLY', false],
    ['SET CONSTRAINTS ALL IMMEDIATE', false],
    ["SELECT set_config('app.tenant', $1, true)", false],
    ['UPDATE t SET a = 1', false],
    ["SELECT '; SET ROLE reader'", false],
    ['SELECT offset, reset FROM set', false],
  ])('%s: %s', (query, changes) => {
    expect(setsSession(query, false)).toBe(changes);
  });

  it('are not behind a first statement with values', () => {
    expect(setsSession('SELECT $1; SET ROLE reader', true)).toBe(false);
  });
});
