import { Replays, type ForwardOptions } from '../../src/index.js';
import { DestinationRefused } from '../../src/effects/index.js';
import { createApplication, listen } from '../support/application.js';
import { FakeSink } from '../support/fake-sink.js';
import { awardeeSource, scripted, startInbox, clear, type TestInbox } from './support/inbox.js';

const who = { by: 'a test', reason: 'to see' };
/** A colleague's machine: neither https nor a public address. */
const allow = { http: true, privateAddresses: ['127.0.0.0/8'] };

describe('R25 Replays.forward', () => {
  let inbox: TestInbox;
  let sink: FakeSink;
  const forward = (
    options: Partial<ForwardOptions> = {},
    selection: Parameters<Replays['forward']>[0] = { all: true },
  ) => inbox.app.get(Replays).forward(selection, `${sink.origin}/hooks?x=1`, { ...who, allow, ...options });
  const sentIds = () => sink.requests.map(({ headers }) => headers['x-awardee-delivery']);

  beforeAll(async () => {
    sink = await FakeSink.start();
    inbox = await startInbox({
      webhooks: {
        sources: { awardee: awardeeSource({ keepHeaders: ['x-awardee-signature', 'Transfer-Encoding'] }) },
      },
      providers: [scripted({})],
    });
  });
  beforeEach(async () => {
    sink.requests.length = 0;
    sink.answer = (response) => response.writeHead(202).end();
    for (let index = 0; index < 4; index += 1)
      await inbox.deliver(`d-${index}`, 'grant.made', `{"n":  ${index}.0, "n": "\u00e9"}`);
  });
  afterEach(async () => {
    await clear(inbox.database);
    await inbox.query('TRUNCATE webhook_replay');
  });
  afterAll(async () => {
    await inbox?.stop();
    await sink?.stop();
  });

  it('sends the stored bytes and headers, the signature included, and nothing of the old connection; changes nothing here', async () => {
    await inbox.query(
      `UPDATE webhook_claim SET headers = headers || '{"transfer-encoding": "chunked", "host": "old.example", "content-encoding": "gzip"}'`,
    );
    const before = await inbox.rows();
    expect(await forward({ headers: { 'X-Debug': '1', 'User-Agent': 'forwarded' } })).toMatchObject({
      forwarded: 4,
      skipped: 0,
      failed: [],
      refused: [],
      gaveUp: false,
    });
    expect(sentIds()).toEqual(['d-0', 'd-1', 'd-2', 'd-3']);
    const claims = await inbox.query<{ body: Buffer; headers: Record<string, string> }>(
      `SELECT body, headers FROM webhook_claim ORDER BY received_at`,
    );
    for (const [index, request] of sink.requests.entries()) {
      expect(request).toMatchObject({
        method: 'POST',
        url: '/hooks?x=1',
        body: claims[index]!.body.toString(),
      });
      expect(request.headers).toMatchObject({
        'x-awardee-signature': claims[index]!.headers['x-awardee-signature'],
        'content-type': claims[index]!.headers['content-type'],
        'content-length': String(claims[index]!.body.length),
        host: new URL(sink.origin).host,
        'x-debug': '1',
        'user-agent': 'forwarded',
      });
      expect(request.headers).not.toHaveProperty('transfer-encoding');
      expect(request.headers).not.toHaveProperty('content-encoding');
    }
    expect(await inbox.rows()).toEqual(before);
  });

  it('another receiver verifies and claims what was forwarded, as a duplicate the second time', async () => {
    const other = await startInbox({ providers: [scripted({})] });
    const http = await createApplication({
      databaseUrl: other.database.url,
      webhooks: { sources: { awardee: awardeeSource() }, relay: false, reconcile: false, retention: false },
      providers: [scripted({})],
    });
    try {
      const url = `${await listen(http)}/webhooks/awardee`;
      const { forwarded } = await inbox.app.get(Replays).forward({ all: true }, url, { ...who, allow });
      expect(forwarded).toBe(4);
      await inbox.app.get(Replays).forward({ all: true }, url, { ...who, allow });
      expect(await other.query(`SELECT event_id, body FROM webhook_claim ORDER BY event_id`)).toEqual(
        await inbox.query(`SELECT event_id, body FROM webhook_claim ORDER BY event_id`),
      );
    } finally {
      await http.close();
      await other.stop();
    }
  });

  it.each<[string, ForwardOptions['allow'], RegExp]>([
    [
      'plain http',
      { privateAddresses: true },
      /expected https, received.*http: true \}.*privateAddresses: \[/,
    ],
    ['an address that is not public', { http: true }, /no public address.*privateAddresses/],
    [
      'an address that is not among those allowed',
      { http: true, privateAddresses: ['10.0.0.0/8'] },
      /no public address.*privateAddresses: \[/,
    ],
  ])('refuses %s before anything is sent', async (_, allowed, message) => {
    const connections = sink.connections;
    const refusal = forward({ allow: allowed });
    await expect(refusal).rejects.toThrow(DestinationRefused);
    await expect(refusal).rejects.toThrow(message);
    expect(sink.connections).toBe(connections);
    expect(await inbox.query('SELECT FROM webhook_replay')).toEqual([]);
  });

  it('a failure is told, a redirect is one, and under the same id only what has failed is sent again', async () => {
    sink.answer = (response, { headers }) => {
      const id = headers['x-awardee-delivery'];
      if (id === 'd-1') response.writeHead(500).end();
      else if (id === 'd-2') response.writeHead(302, { location: `${sink.origin}/other` }).end();
      else response.writeHead(200).end();
    };
    const first = await forward();
    expect(first).toMatchObject({
      forwarded: 2,
      failed: [
        { event: { eventId: 'd-1' }, why: 'answered 500' },
        { event: { eventId: 'd-2' }, why: 'answered 302' },
      ],
    });
    expect(sink.requests).toHaveLength(4);
    sink.requests.length = 0;
    sink.answer = (response) => response.writeHead(200).end();
    expect(await forward({ id: first.id })).toMatchObject({ id: first.id, forwarded: 2, failed: [] });
    expect(sentIds()).toEqual(['d-1', 'd-2']);
    expect(await inbox.query(`SELECT DISTINCT replayed_by, reason FROM webhook_replay`)).toEqual([
      { replayed_by: 'a test', reason: 'to see' },
    ]);
  });

  it('goes on under its id where it was stopped, tells how far it is, and keeps to its cap', async () => {
    const stop = new AbortController();
    const progress: number[] = [];
    const onProgress: ForwardOptions['onProgress'] = ({ forwarded }) => {
      progress.push(forwarded);
      if (forwarded === 2) stop.abort();
    };
    const { id } = await forward({ signal: stop.signal, onProgress }, { all: true, limit: 3 });
    expect(progress).toEqual([1, 2]);
    expect(await forward({ id }, { all: true, limit: 1 })).toMatchObject({ forwarded: 1 });
    const events = [0, 1, 2, 3].map((n) => ({ source: 'awardee', tenant: '', eventId: `d-${n}` }));
    expect(await forward({ id }, { events })).toMatchObject({ forwarded: 1, skipped: 3 });
    expect(sentIds()).toEqual(['d-0', 'd-1', 'd-2', 'd-3']);
  });

  it('keeps to its rate, and a stop does not wait for it', async () => {
    const startedAt = performance.now();
    await forward({ perSecond: 20 });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(145);
    const stop = new AbortController();
    const report = await forward({ perSecond: 0.001, signal: stop.signal, onProgress: () => stop.abort() });
    expect(report.forwarded).toBe(1);
  });

  it('gives up on another side that only fails, and one that never answers has its time', async () => {
    for (let index = 4; index < 8; index += 1) await inbox.deliver(`d-${index}`);
    sink.answer = (response, { headers }) => {
      if (headers['x-awardee-delivery'] !== 'd-0') response.writeHead(503).end();
    };
    const report = await forward({ timeout: 100 });
    expect(report).toMatchObject({ forwarded: 0, gaveUp: true });
    expect(report.failed).toHaveLength(5);
    expect(report.failed[0]!.why).toContain('did not answer within 100 ms');
  });

  it('says what there is nothing to send of', async () => {
    await inbox.query(`UPDATE webhook_claim SET body = NULL WHERE event_id = 'd-1'`);
    const events = ['d-1', 'nobody'].map((eventId) => ({ source: 'awardee', tenant: '', eventId }));
    expect(await forward({}, { events })).toMatchObject({
      forwarded: 0,
      refused: [
        { event: { eventId: 'd-1' }, why: 'its body was removed, by retention or by a person' },
        { event: { eventId: 'nobody' }, why: 'no such event' },
      ],
    });
    expect(sink.requests).toEqual([]);
  });
});
