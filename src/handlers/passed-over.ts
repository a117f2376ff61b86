import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { DecoratedProviders, type Provided } from './decorated.providers.js';
import { allDecorations, decorationsOf, isAbove, metadataOf, type Decoration } from './metadata.js';

/** Classes that no application of this process provides, and that were logged. */
const told = new WeakSet();

/** Warns about methods with decorators of this package that are not registered. Their events would be skipped in silence. */
@Injectable()
export class PassedOver {
  private readonly logger = new InboxLogger();

  constructor(
    private readonly providers: DecoratedProviders,
    private readonly modules: ModulesContainer,
  ) {}

  warn(): void {
    const provided = this.providers.all();
    const absent = new Set<object>();
    for (const decoration of allDecorations()) {
      const { target } = decoration;
      const instances = provided.filter(
        ({ prototype }) => prototype === target || isAbove(target, prototype),
      );
      for (const one of instances) this.warnHidden(decoration, one);
      if (instances.length > 0) told.add(target);
      else if (!told.has(target)) absent.add(target);
    }
    this.warnAbsent([...absent]);
    this.watchLateModules();
  }

  private warnHidden({ key, target, name }: Decoration, { prototype }: Provided): void {
    const method: unknown = Reflect.get(prototype, name);
    if (typeof method === 'function' && metadataOf(key, method).length > 0) return;
    const where = `${target.constructor.name}.${String(name)}`;
    const why =
      Reflect.get(target, name) === method
        ? 'a decorator above @OnWebhook, @OnEffect or @BackfillSource has replaced the method: put the decorator of this package on top'
        : `${prototype.constructor.name} overrides it without the decorator: repeat the decorator there, or remove the method`;
    this.logger.warn(logLine(`${where} is not registered: ${why}`, {}));
  }

  private warnAbsent(targets: readonly object[]): void {
    if (targets.length === 0) return;
    for (const target of targets) told.add(target);
    const classes = targets.map((target) => target.constructor.name || 'an anonymous class').join(', ');
    const text =
      'handlers or effects are not registered, since no module provides their class at boot: add it to ' +
      '`providers`; a module that is loaded lazily is too late';
    this.logger.warn(logLine(text, { classes }));
  }

  /** LazyModuleLoader adds modules after the boot, when what a relay may run has been decided. */
  private watchLateModules(): void {
    const { modules } = this;
    const set = modules.set.bind(modules);
    modules.set = (token, module) => {
      setImmediate(() => {
        for (const { metatype } of [...module.providers.values(), ...module.controllers.values()]) {
          const prototype =
            typeof metatype === 'function' ? (metatype.prototype as object | undefined) : undefined;
          if (prototype !== undefined && decorationsOf(prototype).length > 0)
            this.warnLate(module.name, prototype);
        }
      });
      return set(token, module);
    };
  }

  private warnLate(module: string, prototype: object): void {
    const text =
      'handlers or effects are not registered, since their module was loaded after the boot: import it in a module that is loaded at boot';
    this.logger.warn(logLine(text, { module, class: prototype.constructor.name }));
  }
}
