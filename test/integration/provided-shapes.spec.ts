import { Injectable, Module, Scope, SetMetadata, type Provider, type Type } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { BackfillSource, ConfigurationError, OnEffect, OnWebhook } from '../../src/index.js';
import { ClassNames } from '../../src/handlers/class-names.js';
import { HandlerRegistry } from '../../src/handlers/handler.registry.js';
import { until } from '../support/application.js';
import { awardeeSource, startInbox, type TestInbox } from './support/inbox.js';

let inbox: TestInbox | undefined;
afterEach(async () => {
  await inbox?.stop();
  inbox = undefined;
});

/** Lines of the boot, and of what comes later. */
async function boot(providers: readonly Provider[], imports: readonly Type[] = []): Promise<string[]> {
  const lines: string[] = [];
  inbox = await startInbox({
    providers,
    imports,
    configure: (app) =>
      app.useLogger({
        log: () => undefined,
        error: () => undefined,
        warn: (line) => lines.push(String(line)),
      }),
  });
  return lines;
}
const refused = async (providers: readonly Provider[], message: RegExp) => {
  const starting = boot(providers);
  await expect(starting).rejects.toThrow(ConfigurationError);
  await expect(starting).rejects.toThrow(message);
};

describe('A8 an instance under several tokens', () => {
  it('is registered once: useExisting, a factory and a value that give the same one', async () => {
    @Injectable()
    class Once {
      runs = 0;

      @OnWebhook('awardee', '*')
      handle() {
        this.runs += 1;
      }

      @OnEffect('mail')
      mail() {}

      @BackfillSource('awardee')
      async *list() {}
    }
    const shared = new Once();
    await boot([
      { provide: Once, useValue: shared },
      { provide: 'existing', useExisting: Once },
      { provide: 'factory', useFactory: (once: Once) => once, inject: [Once] },
      { provide: 'value', useValue: shared },
      { provide: 'existing of existing', useExisting: 'existing' },
    ]);
    expect([...inbox!.app.get(HandlerRegistry).handlers().keys()]).toEqual(['awardee/Once.handle']);
    await inbox!.deliver('1');
    await inbox!.relay.tick();
    expect(shared.runs).toBe(1);
  });

  it('two instances are refused', async () => {
    @Injectable()
    class Twice {
      @OnWebhook('awardee', '*')
      handle() {}
    }
    await refused([Twice, { provide: 'other', useFactory: () => new Twice() }], /is registered twice/);
  });
});

describe('A8 scopes', () => {
  it.each([
    [
      'a handler',
      (type: Type) => OnWebhook('awardee', '*')(type.prototype as object, 'run', descriptorOf(type)),
    ],
    ['an effect', (type: Type) => OnEffect('mail')(type.prototype as object, 'run', descriptorOf(type))],
    [
      'a backfill source',
      (type: Type) => BackfillSource('awardee')(type.prototype as object, 'run', descriptorOf(type)),
    ],
  ])('%s in a class of Scope.TRANSIENT is refused', async (_name, decorate) => {
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient {
      run() {}
    }
    decorate(Transient);
    await refused([Transient], /Transient\.run .*is in a class of Scope\.TRANSIENT/);
  });

  it('a singleton may inject what is transient', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class Dependency {
      readonly value = 7;
    }
    let found: number | undefined;
    @Injectable()
    class Single {
      constructor(private readonly dependency: Dependency) {}

      @OnWebhook('awardee', '*', { name: 'single' })
      handle() {
        found = this.dependency.value;
      }
    }
    await boot([Dependency, Single]);
    await inbox!.deliver('1');
    await inbox!.relay.tick();
    expect(found).toBe(7);
  });
});

describe('A8 methods that are not found are told', () => {
  it('at boot, and a lazy module when it is loaded', async () => {
    const replaces: MethodDecorator = (_target, _name, descriptor) => {
      descriptor.value = (() => undefined) as never;
    };
    @Injectable()
    class Replaced {
      @replaces
      @OnWebhook('awardee', 'a', { name: 'replaced' })
      handle() {}
    }
    @Injectable()
    class Copied {
      @SetMetadata('a', 1)
      @OnWebhook('awardee', 'b', { name: 'copied' })
      handle() {}
    }
    abstract class Base {
      @OnWebhook('awardee', 'c', { name: 'base' })
      handle() {}

      @OnEffect('kept')
      kept() {}
    }
    @Injectable()
    class Overriding extends Base {
      override handle() {}
    }
    @Injectable()
    class NotProvided {
      @OnWebhook('awardee', 'd', { name: 'absent' })
      handle() {}
    }
    @Injectable()
    class LazyHandlers {
      @OnWebhook('awardee', 'e', { name: 'lazy' })
      handle() {}
    }
    @Module({ providers: [LazyHandlers] })
    class LazyModule {}

    const lines = await boot([Replaced, Copied, Overriding]);
    const told = lines.filter((line) => line.includes('not registered')).join('\n');
    expect(told).toMatch(/Replaced\.handle is not registered: a decorator above/);
    expect(told).toMatch(/Base\.handle is not registered: Overriding overrides it without the decorator/);
    expect(told).toMatch(/no module provides their class at boot.*NotProvided.*LazyHandlers/);
    expect(told).not.toMatch(/Copied|kept/);
    expect(inbox!.app.get(HandlerRegistry).effect('kept')).toBeDefined();
    expect(NotProvided).toBeDefined();

    await inbox!.app.get(LazyModuleLoader).load(() => LazyModule);
    await until(() =>
      lines.some((line) => /their module was loaded after the boot.*LazyHandlers/.test(line)),
    );
  });
});

describe('A7 who a handler is', () => {
  it.each<[string, 'sound' | 'doubtful' | 'refused']>([
    ['Billing', 'sound'],
    ['Api', 'sound'],
    ['V2Handlers', 'sound'],
    ['Überweisungen', 'sound'],
    ['a', 'doubtful'],
    ['Qe', 'doubtful'],
    ['$', 'doubtful'],
    ['_t', 'doubtful'],
    ['aB2', 'doubtful'],
    ['Billing$1', 'doubtful'],
    ['', 'refused'],
    ['default', 'refused'],
    ['default_1', 'refused'],
    ['class_1', 'refused'],
  ])('a class of the name %j is %s', (name, verdict) => {
    const names = new ClassNames();
    const check = () => names.check(name, 'here');
    if (verdict === 'refused') return expect(check).toThrow(/in a class without a name/);
    check();
    expect(names.doubts).toEqual(verdict === 'doubtful' ? [name] : []);
  });

  it('is told at boot where a name looks minified, and not where a `name` is given', async () => {
    const named = (name: string, options: { name?: string }): Type => {
      const type = { [name]: class {} }[name]!;
      Object.defineProperty(type.prototype, 'run', { value: () => undefined, configurable: true });
      OnWebhook('awardee', '*', options)(type.prototype, 'run', descriptorOf(type));
      return type;
    };
    const lines = await boot([named('Xy', {}), named('Zz', { name: 'stable' })]);
    expect(lines.filter((line) => line.includes('bundler'))).toEqual([expect.stringMatching(/classes=Xy$/)]);
    await inbox!.stop();
    inbox = undefined;
    await refused([named('', {})], /in a class without a name/);
  });

  it('a row whose type its handler does not take is kept, told after an hour, and run by a build that takes it', async () => {
    const runs: string[] = [];
    @Injectable()
    class Swapped {
      @OnWebhook('awardee', 'order.*', { name: 'a', retry: { maxAttempts: 1 } })
      a({ type }: { type: string }) {
        runs.push(type);
      }
    }
    inbox = await startInbox({
      providers: [Swapped],
      webhooks: { sources: { awardee: awardeeSource(), waits: awardeeSource({ retries: 'provider' }) } },
    });
    await inbox.deliver('1', 'order.shipped');
    // As an earlier build has claimed it, under the same name.
    await inbox.query(`UPDATE webhook_claim SET event_type = 'invoice.paid'`);
    for (let round = 0; round < 3; round += 1) {
      await inbox.makeDue();
      await inbox.relay.tick();
    }
    expect(runs).toEqual([]);
    const [row] = await inbox.rows();
    expect(row).toMatchObject({ state: 'pending', leased_by: null });
    expect(inbox.alerts).toEqual([]);

    await inbox.query(`UPDATE webhook_outbox SET first_leased_at = now() - interval '2 hours'`);
    await inbox.makeDue();
    await inbox.relay.tick();
    expect(inbox.alerts).toEqual([{ kind: 'unknown-name', name: 'awardee/a', rows: 1 }]);

    await inbox.query(`UPDATE webhook_claim SET event_type = 'order.shipped'`);
    await inbox.settle();
    expect(runs).toEqual(['order.shipped']);
  });
});

function descriptorOf(type: Type): PropertyDescriptor {
  return Object.getOwnPropertyDescriptor(type.prototype, 'run')!;
}
