import { types } from 'pg';
import type { HandlerContext, WebhookEvent } from '../../src/index.js';
import { OWN_TYPES } from '../../src/storage/postgres/own-types.js';
import { scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

/** Types of PostgreSQL's catalogue, and their arrays. */
const OIDS = [
  16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 1000, 1001, 1005, 1007, 1009, 1015, 1016, 1042, 1043,
  1082, 1114, 1184, 1185, 1186, 1700, 2950, 2951, 3802,
];
type Parser = (text: string) => unknown;
interface Parsers {
  setTypeParser(oid: number, parser: Parser): void;
  getTypeParser(oid: number): Parser;
}
const parsers: Parsers = types as object as Parsers;
const before = new Map(OIDS.map((oid) => [oid, parsers.getTypeParser(oid)]));
const setParser = (oid: number, parser: Parser) => parsers.setTypeParser(oid, parser);

const script: Partial<Script> = {};
let inbox: TestInbox;

beforeAll(async () => {
  inbox = await startInbox({
    providers: [scripted(script, { handler: { skipStale: { key: () => 'k' } } })],
  });
});
afterEach(() => before.forEach((parser, oid) => setParser(oid, parser)));
afterAll(() => inbox.stop());

const shape = ({ receivedAt, type, payload, eventId }: WebhookEvent) => ({
  receivedAt: receivedAt instanceof Date && Math.abs(receivedAt.getTime() - Date.now()) < 3_600_000,
  type,
  payload,
  eventId,
});

it('an event is claimed, leased, handled with its values, and settled, whatever the application makes of PostgreSQL’s', async () => {
  const seen: unknown[] = [];
  script.handle = async (event: WebhookEvent, { enqueue, manager }: HandlerContext) => {
    seen.push(shape(event), await manager.query('SELECT 1 AS one, $1::text AS text', ['t']));
    await enqueue('mail', { n: 1 });
    return 'handled';
  };
  script.effect = (payload) => void seen.push(payload);
  for (const oid of OIDS) setParser(oid, () => 'hostile');
  expect(await inbox.deliver('1', 'grant.made', { a: [1, 'x'] })).toMatchObject({ status: 200 });
  expect(await inbox.deliver('1', 'grant.made', { a: [1, 'x'] })).toMatchObject({ status: 200 });
  expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
  expect(await inbox.relay.tick()).toMatchObject({ done: 1 });
  before.forEach((parser, oid) => setParser(oid, parser));
  expect(seen).toEqual([
    { receivedAt: true, type: 'grant.made', payload: { a: [1, 'x'] }, eventId: '1' },
    // The application's own queries are the application's.
    [{ one: 'hostile', text: 'hostile' }],
    { n: 1 },
  ]);
  expect(await inbox.rows()).toMatchObject([{ state: 'done' }, { state: 'done' }]);
});

it.each([
  `'2026-11-29 22:25:52.123456+00'::timestamptz`,
  `'1900-01-01 00:00:00+00'::timestamptz`,
  `'0044-03-15 12:00:00.5+00 BC'::timestamptz`,
  `'12345-01-01 00:00:00+00'::timestamptz`,
  `'infinity'::timestamptz`,
  `ARRAY['2026-02-28 00:00+00'::timestamptz, NULL]`,
  String.raw`'\x00ff5c27'::bytea`,
  String.raw`ARRAY['\x00ff'::bytea, NULL]`,
  `ARRAY['a"b', 'c\\d', 'e,f', '', NULL, 'NULL', '{}']::text[]`,
  `'{}'::text[]`,
  `'{"a": [1, null, "x"]}'::jsonb`,
  `9007199254740993::bigint`,
  `1.50::numeric`,
  `1.25::float8`,
  `true`,
  `7::smallint`,
  `gen_random_uuid() IS NULL`,
])('reads %s as pg’s own parsers do, under any settings of the session', async (value) => {
  const { dataSource } = inbox;
  await dataSource.transaction(async (manager) => {
    const [expected] = await manager.query<unknown[]>(`SELECT ${value} AS value`);
    for (const setting of [
      `TimeZone = 'Asia/Kathmandu'`,
      `TimeZone = 'America/St_Johns'`,
      `bytea_output = 'escape'`,
      `extra_float_digits = 0`,
      `IntervalStyle = 'iso_8601'`,
      `DateStyle = 'ISO, DMY'`,
    ]) {
      await manager.query(`SET LOCAL ${setting}`);
      const client = (await manager.queryRunner!.connect()) as {
        query(query: object): Promise<{ rows: unknown[] }>;
      };
      const read = await client.query({ text: `SELECT ${value} AS value`, types: OWN_TYPES });
      expect(read.rows).toEqual([expected]);
    }
  });
});
