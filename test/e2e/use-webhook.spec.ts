import {
  Body,
  Controller,
  Get,
  HttpCode,
  Injectable,
  Next,
  ParseIntPipe,
  Post,
  Put,
  Res,
  Scope,
  ServiceUnavailableException,
  type Type,
} from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import {
  Event,
  OnEffect,
  OnWebhook,
  Outbox,
  Replays,
  Revivals,
  TxManager,
  UseWebhook,
  type Alert,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { ADAPTERS, until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import {
  answered,
  DUPLICATE,
  FAILED,
  INVALID,
  OK,
  Receiver,
  UNAUTHORIZED,
  UNAVAILABLE,
} from '../support/receiver.js';
import { sesmetric, type SignedRequest } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';
import { record } from '../support/tables.js';
import { validationPipe } from '../support/validation.js';

class Invoice {
  id!: string;
  amount!: number;
  /** How many deliveries fail before one does not. */
  failures?: number;
  /** The first delivery waits for a latch of the event's name. */
  hangs?: boolean;
  swallows?: boolean;

  static problems(value: object): string[] {
    return (value as Invoice).amount > 0 ? [] : ['amount must be positive'];
  }
}

const latches = new Map<string, Latch>();
const latch = (name: string) => latches.get(name) ?? latches.set(name, new Latch()).get(name)!;
const runs = new Map<string, number>();
const countRun = (id: string) => runs.set(id, (runs.get(id) ?? 0) + 1).get(id)!;
const mailed: { key: string; payload: unknown }[] = [];

const amountOf = { transform: (invoice: Invoice) => String(invoice.amount) };
const typeOf = { transform: (event: WebhookEvent) => event.type };

@Controller('billing')
class Billing {
  constructor(private readonly outbox: Outbox) {}

  @Post('invoices')
  @HttpCode(201)
  @UseWebhook('invoices', { name: 'invoice' })
  async invoice(@Event() event: WebhookEvent, @TxManager() manager: EntityManager, @Body() body: Invoice) {
    const run = countRun(event.eventId);
    await record(event, { manager });
    await this.outbox.enqueue(manager, 'mail', { amount: body.amount, run }, { key: 'customer' });
    if (body.hangs && run === 1) await latch(event.eventId).wait();
    if (body.swallows && run === 1) await manager.query('SELECT 1 / 0').catch(() => undefined);
    if (run <= (body.failures ?? 0)) throw new ServiceUnavailableException('ledger away');
    return `invoice ${body.id} over ${body.amount}`;
  }

  /** The application's own method on the same path. */
  @Put('invoices')
  replace(@Body() body: unknown) {
    return { replaced: body };
  }

  @Post('hasty')
  @UseWebhook('hasty')
  async hasty(@Event() event: WebhookEvent, @TxManager() manager: EntityManager) {
    await record(event, { manager });
    if (countRun(event.eventId) === 1) await latch(event.eventId).wait();
  }

  @Post('numbers')
  @UseWebhook('numbers')
  numbers(@Body('amount', ParseIntPipe) amount: number) {
    return { doubled: amount * 2 };
  }

  @Post('properties')
  @UseWebhook('properties')
  properties(
    @Event('eventId') id: string,
    @Event('payload') payload: Invoice,
    @Event('payload', amountOf, ParseIntPipe) amount: number,
    @Event(typeOf) type: string,
  ) {
    return `${type} ${id}: ${payload.id} over ${amount}`;
  }

  @Post('shared')
  @UseWebhook('shared', { name: 'route' })
  async shared(@Event() event: WebhookEvent, @TxManager() manager: EntityManager) {
    await record({ ...event, source: 'route' }, { manager });
  }
}

@Controller({ path: 'scoped', scope: Scope.REQUEST })
class Scoped {
  @Post()
  @UseWebhook('scoped')
  async receive(@Event() event: WebhookEvent, @TxManager() manager: EntityManager) {
    await record(event, { manager });
  }
}

@Injectable()
class Handlers {
  @OnWebhook('shared', '*', { name: 'handler' })
  async besides(event: WebhookEvent<Invoice>, { manager, attempt }: HandlerContext) {
    await record({ ...event, source: 'handler' }, { manager });
    if (attempt <= (event.payload.failures ?? 0)) throw new Error('not yet');
  }

  @OnEffect('mail')
  async mail(payload: unknown, { key }: EffectContext) {
    mailed.push({ key, payload });
  }
}

describe.each(ADAPTERS)('@UseWebhook over HTTP on %s', (adapter) => {
  let receiver: Receiver;
  const alerts: Alert[] = [];
  const request = (id: string, invoice: Partial<Invoice> = {}) =>
    sesmetric({ id, type: 'invoice.paid', amount: 7, ...invoice });
  const deliver = (signed: SignedRequest, path = '/billing/invoices') => receiver.deliverTo(path, signed);

  beforeAll(async () => {
    for (const kept of [latches, runs]) kept.clear();
    mailed.length = 0;
    receiver = await Receiver.start({
      adapter,
      providers: [Handlers],
      controllers: [Billing, Scoped],
      configure: (app) => app.useGlobalPipes(validationPipe()),
      webhooks: {
        controller: false,
        onAlert: (alert) => void alerts.push(alert),
        sources: {
          invoices: sesmetricSource(),
          hasty: sesmetricSource({ ackTimeout: '1200ms' }),
          numbers: sesmetricSource({ maxAttempts: 2 }),
          properties: sesmetricSource(),
          shared: sesmetricSource(),
          scoped: sesmetricSource(),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());

  it('hands in event, manager and body; commits the record with the claim; keeps what the route returns', async () => {
    expect(await deliver(request('first'))).toBe(OK);
    expect(await receiver.applied('first')).toBe(1);
    expect(await receiver.event('first')).toMatchObject({
      source: 'invoices',
      event_type: 'invoice.paid',
      state: 'processed',
      outcome: 'invoices/invoice: invoice first over 7',
    });
    expect(await receiver.rows('first')).toMatchObject([
      { kind: 'handler', name: 'invoices/invoice', state: 'done', attempt: 1 },
      { kind: 'effect', name: 'mail', state: 'pending' },
    ]);
  });

  it('answers duplicate to a known event and does not run the route', async () => {
    expect(await deliver(request('first'))).toBe(DUPLICATE);
    expect(runs.get('first')).toBe(1);
    expect(await receiver.applied('first')).toBe(1);
  });

  it('gives the route the body as JSON, whatever the content type says', async () => {
    for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded']) {
      const { headers, body } = request(`as ${type}`);
      expect(await deliver({ body, headers: { ...headers, 'content-type': type } })).toBe(OK);
      expect(await receiver.event(`as ${type}`)).toMatchObject({ state: 'processed' });
    }
  });

  it('does not run the route for a forgery, or for a body without an id', async () => {
    const { headers } = request('forged');
    expect(await deliver({ headers, body: request('forged', { amount: 9 }).body })).toBe(UNAUTHORIZED);
    expect(runs.get('forged')).toBeUndefined();
    expect(await receiver.claims('forged')).toBe(0);
    expect(await deliver(sesmetric({ type: 'invoice.paid', amount: 7 }))).toBe(INVALID);
  });

  it('leaves other methods of the same path, and their bodies, to the application', async () => {
    const reply = await receiver.send({
      path: '/billing/invoices',
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
    expect(answered(reply)).toBe('200 {"replaced":{"a":1}}');
  });

  it('works on a request-scoped controller', async () => {
    expect(await deliver(request('scoped'), '/scoped')).toBe(OK);
    expect(await deliver(request('scoped'), '/scoped')).toBe(DUPLICATE);
    expect(await receiver.applied('scoped')).toBe(1);
  });

  describe('R13 and R35 a route that throws', () => {
    it('is answered 500, leaves nothing written, and is run again by the redelivery', async () => {
      expect(await deliver(request('throws', { failures: 1 }))).toBe(FAILED);
      expect(await receiver.applied('throws')).toBe(0);
      expect(await receiver.rows('throws')).toMatchObject([
        {
          kind: 'handler',
          state: 'pending',
          attempt: 1,
          leased_by: null,
          error: expect.stringContaining('ledger away'),
        },
      ]);
      expect(await deliver(request('throws', { failures: 1 }))).toBe(OK);
      expect(await deliver(request('throws', { failures: 1 }))).toBe(DUPLICATE);
      expect(runs.get('throws')).toBe(2);
      expect(await receiver.applied('throws')).toBe(1);
    });

    it('case 29: gets its 500 past the application’s exception filters, with nothing of the error in it', async () => {
      const reply = await receiver.send({
        path: '/billing/invoices',
        ...request('filtered', { failures: 9 }),
      });
      expect(answered(reply)).toBe(FAILED);
      expect(reply.text).not.toContain('ledger');
    });

    it('is taken at its word when it swallows a query error: nothing is committed, 500', async () => {
      expect(await deliver(request('swallows', { swallows: true }))).toBe(FAILED);
      expect(await receiver.applied('swallows')).toBe(0);
      expect(await deliver(request('swallows', { swallows: true }))).toBe(OK);
      expect(await receiver.applied('swallows')).toBe(1);
    });

    it('R14 is dead after five attempts, 200, and a person is told', async () => {
      alerts.length = 0;
      for (let i = 0; i < 5; i += 1) expect(await deliver(request('r14', { failures: 99 }))).toBe(FAILED);
      expect(await deliver(request('r14', { failures: 99 }))).toBe(OK);
      expect(await receiver.rows('r14')).toMatchObject([
        { state: 'dead', reason: 'attempts-exhausted', attempt: 5 },
      ]);
      expect(alerts).toMatchObject([
        { kind: 'dead-letter', name: 'invoices/invoice', event: { eventId: 'r14' } },
      ]);
      expect(await deliver(request('r14', { failures: 99 }))).toBe(DUPLICATE);
      expect(runs.get('r14')).toBe(5);
    });
  });

  describe('R22 a body that validation refuses', () => {
    it('is dead at once and answered 200: the same body would be refused again', async () => {
      expect(await deliver(request('invalid', { amount: -1 }))).toBe(OK);
      expect(await receiver.rows('invalid')).toMatchObject([
        { state: 'dead', reason: 'permanent-error', attempt: 1 },
      ]);
      expect(runs.get('invalid')).toBeUndefined();
    });

    it('is so for a pipe of one parameter too', async () => {
      expect(await deliver(request('no-number', { amount: 'many' as never }), '/billing/numbers')).toBe(OK);
      expect(await receiver.rows('no-number')).toMatchObject([{ state: 'dead', reason: 'permanent-error' }]);
      expect(await deliver(request('number'), '/billing/numbers')).toBe(OK);
      expect(await receiver.event('number')).toMatchObject({
        outcome: 'numbers/Billing.numbers: {"doubled":14}',
      });
    });
  });

  describe('@Event() with the name of a property', () => {
    it('hands that in, through the pipes; with a pipe alone they get the event', async () => {
      expect(await deliver(request('named'), '/billing/properties')).toBe(OK);
      expect(await receiver.event('named')).toMatchObject({
        outcome: 'properties/Billing.properties: invoice.paid named: named over 7',
      });
      expect(await deliver(request('named-badly', { amount: 'many' as never }), '/billing/properties')).toBe(
        OK,
      );
      expect(await receiver.rows('named-badly')).toMatchObject([
        { state: 'dead', reason: 'permanent-error' },
      ]);
    });

    it('refuses one that no event has, when the class is made', () => {
      expect(() => {
        class Misspelt {
          @Post('x')
          @UseWebhook('invoices')
          receive(@Event('payloads' as 'payload') _payload: unknown) {}
        }
        return Misspelt;
      }).toThrow(
        "Misspelt.receive @Event('payloads'): expected a property of the event; did you mean 'payload'?",
      );
    });
  });

  describe('R34 the same event while the route runs', () => {
    it('is answered 503 with Retry-After, since the first may still roll back', async () => {
      const first = deliver(request('race', { hangs: true }));
      await until(() => latch('race').arrived > 0);
      const replies = await Promise.all(
        Array.from({ length: 12 }, () =>
          receiver.send({ path: '/billing/invoices', ...request('race', { hangs: true }) }),
        ),
      );
      for (const reply of replies) {
        expect(answered(reply)).toBe(UNAVAILABLE);
        expect(reply.headers['retry-after']).toBe('5');
      }
      latch('race').open();
      expect(await first).toBe(OK);
      expect(await deliver(request('race'))).toBe(DUPLICATE);
      expect(runs.get('race')).toBe(1);
    });
  });

  describe('a route that does not end in time', () => {
    it('is answered 500 and leaves nothing; its late end changes nothing, and the redelivery runs it again', async () => {
      expect(await deliver(request('slow'), '/billing/hasty')).toBe(FAILED);
      expect(await receiver.applied('slow')).toBe(0);
      latch('slow').open();
      // On a busy machine the time may be over once more.
      await until(async () => (await deliver(request('slow'), '/billing/hasty')) === OK);
      expect(await receiver.applied('slow')).toBe(1);
      const [row, ...others] = await receiver.rows('slow');
      expect([row!.state, others]).toEqual(['done', []]);
      expect(row!.attempt).toBeGreaterThan(1);
    });
  });

  describe('R36 an effect that the route enqueues through Outbox', () => {
    it('is dropped with a failed run, and has the same id and first payload whichever run commits', async () => {
      expect(await deliver(request('effect', { failures: 1, amount: 3 }))).toBe(FAILED);
      expect(await receiver.rows('effect')).toHaveLength(1);
      expect(await deliver(request('effect', { failures: 1, amount: 3 }))).toBe(OK);
      const [, effect] = await receiver.rows('effect');
      await receiver.drain();
      expect(mailed.filter(({ key }) => key === effect!.id)).toEqual([
        { key: effect!.id, payload: { amount: 3, run: 2 } },
      ]);
    });
  });

  describe('handlers beside the route', () => {
    it('run under the same delivery; a redelivery runs only what is left', async () => {
      expect(await deliver(request('shared', { failures: 1 }), '/billing/shared')).toBe(FAILED);
      expect(await receiver.rows('shared')).toMatchObject([
        { name: 'shared/handler', state: 'pending', attempt: 1 },
        { name: 'shared/route', state: 'done', attempt: 1 },
      ]);
      expect(await deliver(request('shared', { failures: 1 }), '/billing/shared')).toBe(OK);
      expect(
        await receiver.query(
          `SELECT source, applied_count AS n FROM received_event WHERE event_id = 'shared' ORDER BY 1`,
        ),
      ).toEqual([
        { source: 'handler', n: 1 },
        { source: 'route', n: 1 },
      ]);
    });
  });

  describe('a failed route that is never redelivered', () => {
    it('is dead when the provider’s window is over, since only a delivery can run it', async () => {
      alerts.length = 0;
      expect(await deliver(request('alone', { failures: 9 }))).toBe(FAILED);
      await receiver.query(
        `UPDATE webhook_outbox SET due_at = now(), lease_until = now() WHERE event_id = 'alone'`,
      );
      await receiver.drain();
      expect(await receiver.rows('alone')).toMatchObject([{ state: 'dead', reason: 'not-redelivered' }]);
      expect(alerts).toMatchObject([{ kind: 'dead-letter', reason: 'not-redelivered' }]);
    });
  });

  describe('a dead event, once its cause is gone', () => {
    it('is run by a redelivery when a person has revived it, as the refusal of its replay says', async () => {
      const decider = { by: 'ann@example.com', reason: 'the amount is right now' };
      for (let i = 0; i < 5; i += 1) expect(await deliver(request('mended', { failures: 5 }))).toBe(FAILED);
      expect(await deliver(request('mended', { failures: 5 }))).toBe(OK);
      const event = { source: 'invoices', tenant: '', eventId: 'mended' };
      const { refused } = await receiver.app.get(Replays).run({ events: [event] }, decider);
      expect(refused).toMatchObject([
        { refused: expect.stringMatching(/revive its row, then have the provider send the event again$/) },
      ]);

      const [row] = await receiver.rows('mended');
      expect(await receiver.app.get(Revivals).revive([row!.id], decider)).toEqual([row!.id]);
      await receiver.drain();
      expect(await receiver.rows('mended')).toMatchObject([{ state: 'pending' }]);
      expect(await deliver(request('mended', { failures: 5 }))).toBe(OK);
      expect((await receiver.rows('mended'))[0]).toMatchObject({ kind: 'handler', state: 'done' });
      expect(runs.get('mended')).toBe(6);
      expect(await deliver(request('mended', { failures: 5 }))).toBe(DUPLICATE);
    });
  });

  describe('boot', () => {
    const boot = (controller: Type) =>
      Receiver.start({
        adapter,
        database: receiver.database,
        controllers: [controller],
        webhooks: { sources: { invoices: sesmetricSource() } },
      }).then((started) => started.stop());

    it('refuses @Res(): the answer is written after the commit', async () => {
      @Controller()
      class WithResponse {
        @Post('x')
        @UseWebhook('invoices')
        receive(@Res() _response: unknown) {}
      }
      await expect(boot(WithResponse)).rejects.toThrow(
        /WithResponse\.receive @UseWebhook\('invoices'\): expected no @Res\(\).*return the result summary instead/,
      );
    });

    it('refuses @Res({ passthrough: true }) and @Next() as well', async () => {
      @Controller()
      class PassingThrough {
        @Post('x')
        @UseWebhook('invoices')
        receive(@Res({ passthrough: true }) _response: unknown) {}
      }
      @Controller()
      class WithNext {
        @Post('x')
        @UseWebhook('invoices')
        receive(@Next() _next: unknown) {}
      }
      await expect(boot(PassingThrough)).rejects.toThrow(/PassingThrough\.receive/);
      await expect(boot(WithNext)).rejects.toThrow(/WithNext\.receive/);
    });

    it('refuses a source that is not configured, naming those that are', async () => {
      @Controller()
      class Unknown {
        @Post('x')
        @UseWebhook('invoice')
        receive() {}
      }
      await expect(boot(Unknown)).rejects.toThrow(
        "Unknown.receive @UseWebhook('invoice'): no source 'invoice' is configured; did you mean 'invoices'?",
      );
    });

    it('refuses @Get(), which carries no body to verify', async () => {
      @Controller()
      class Getting {
        @Get('x')
        @UseWebhook('invoices')
        receive() {}
      }
      await expect(boot(Getting)).rejects.toThrow(
        /Getting\.receive .*expected a route for the method the provider sends/,
      );
    });

    it('refuses two routes of one name', async () => {
      @Controller()
      class Twice {
        @Post('x')
        @UseWebhook('invoices', { name: 'same' })
        one() {}

        @Post('y')
        @UseWebhook('invoices', { name: 'same' })
        two() {}
      }
      await expect(boot(Twice)).rejects.toThrow(
        /'invoices\/same' is registered twice: Twice\.one @UseWebhook\('invoices'\) in \w+ and Twice\.two @UseWebhook\('invoices'\) in/,
      );
    });
  });
});
