import { Inject, Injectable } from '@nestjs/common';
import { InputRefused } from '../core/errors.js';
import { Inspector } from '../operator/inspector.js';
import { Operator } from '../operator/operator.js';
import type { Decider } from '../core/decider.js';
import { DashboardLists } from './dashboard.lists.js';
import { scopeOf, type Owner } from './rights.js';
import { contentOf, type Content } from './content.js';
import {
  DASHBOARD,
  type DashboardAction,
  type DashboardScope,
  type ResolvedDashboard,
} from './dashboard.options.js';
import { ACTION_INPUT, read, type ActionName } from './input.js';

/** Which permission an action of the API needs. */
export const PERMISSION: Readonly<Record<ActionName, DashboardAction>> = {
  revive: 'revive',
  'revive-preview': 'revive',
  'row-states': 'view',
  'give-up': 'give-up',
  issue: 'issue',
  'find-gaps': 'replay',
  'verify-again': 'verify-again',
  reveal: 'reveal',
  'replay-preview': 'replay',
  replay: 'replay',
  forward: 'forward',
  park: 'park',
  decide: 'decide',
  cancel: 'cancel',
  erase: 'erase',
  pause: 'pause',
};

export function isAction(name: string): name is ActionName {
  return Object.hasOwn(ACTION_INPUT, name);
}

/** The reason in the audit for reading content. It is always the same, so it is not asked for. */
const LOOKED = 'looked at on the dashboard';

/** Reads an action's JSON and has the operator do it. */
@Injectable()
export class DashboardActions {
  constructor(
    @Inject(DASHBOARD) private readonly options: ResolvedDashboard,
    private readonly operator: Operator,
    private readonly inspector: Inspector,
    private readonly lists: DashboardLists,
  ) {}

  /**
   * Sources and tenants that an action concerns.
   * @throws InputRefused
   */
  async scopes(name: ActionName, body: unknown): Promise<DashboardScope[]> {
    switch (name) {
      case 'revive':
      case 'revive-preview':
      case 'row-states':
      case 'give-up':
      case 'park':
        return this.ofRows(read(ACTION_INPUT[name], body, name).ids);
      case 'decide':
        return this.ofRows([read(ACTION_INPUT.decide, body, name).id]);
      case 'cancel':
        return this.ofRows([read(ACTION_INPUT.cancel, body, name).id]);
      case 'reveal': {
        const { event, effect } = read(ACTION_INPUT.reveal, body, name);
        return this.ofRows([event ?? effect ?? '']);
      }
      case 'issue':
        return this.ofGroup(read(ACTION_INPUT.issue, body, name).fingerprint);
      case 'replay-preview':
      case 'replay':
      case 'forward':
        return distinct(read(ACTION_INPUT[name], body, name).events);
      case 'erase':
        return distinct([read(ACTION_INPUT.erase, body, name).event]);
      case 'find-gaps':
      case 'verify-again':
        return [{ source: read(ACTION_INPUT[name], body, name).source }];
      default: {
        const source = this.lists.sourceOf(read(ACTION_INPUT.pause, body, name));
        return [source === null ? {} : { source }];
      }
    }
  }

  /** An unknown id has no owner. Its answer must be the same as for a row of another owner. */
  private async ofRows(ids: readonly string[]): Promise<DashboardScope[]> {
    const owners = await this.inspector.scopes(ids.filter((id) => id !== ''));
    const scopes = ids.map((id) => owners.get(id.toLowerCase()));
    return distinct(scopes.map((owner) => owner ?? { source: null, tenant: null }));
  }

  private async ofGroup(fingerprint: string): Promise<DashboardScope[]> {
    return distinct(await this.inspector.groupOwners(fingerprint));
  }

  /**
   * @param by name for the audit
   * @throws InputRefused and the errors of the operator
   */
  async run(name: ActionName, body: unknown, by: string): Promise<unknown> {
    const deed = (input: { readonly reason: string }): Decider => ({ by, reason: input.reason });
    switch (name) {
      case 'revive': {
        const input = read(ACTION_INPUT.revive, body, name);
        const revived = await this.operator.revive(input.ids, deed(input));
        const others = input.ids.filter((id) => !revived.includes(id));
        return others.length === 0
          ? { revived }
          : { revived, others: await this.operator.whyNotDead(others) };
      }
      case 'revive-preview':
        return this.operator.previewRevive(read(ACTION_INPUT[name], body, name).ids);
      case 'row-states':
        return this.operator.progress(read(ACTION_INPUT[name], body, name).ids);
      case 'give-up': {
        const input = read(ACTION_INPUT['give-up'], body, name);
        return { givenUp: await this.operator.giveUp(input.ids, deed(input)) };
      }
      case 'issue': {
        const input = read(ACTION_INPUT.issue, body, name);
        await this.operator.setIssue(input.fingerprint, input.state, deed(input));
        return {};
      }
      case 'find-gaps': {
        const input = read(ACTION_INPUT[name], body, name);
        return this.operator.findGaps(input.source, deed(input));
      }
      case 'verify-again': {
        const input = read(ACTION_INPUT['verify-again'], body, name);
        return this.operator.verifyAgain(input.source, input.after, deed(input));
      }
      case 'reveal':
        return contentOf((await this.revealed(body, by)).bytes) satisfies Content;
      case 'replay-preview': {
        const input = read(ACTION_INPUT['replay-preview'], body, name);
        return { plans: await this.operator.previewReplay(input.events, input.refire, input.newEffects) };
      }
      case 'replay': {
        const input = read(ACTION_INPUT.replay, body, name);
        return this.operator.replay(input.events, input.refire, deed(input), input.newEffects, input.id);
      }
      case 'forward': {
        const input = read(ACTION_INPUT.forward, body, name);
        const { events, url, secret, scheme: options, body: edited, id } = input;
        const sign = secret === undefined ? undefined : { secret, ...(options && { options }) };
        return this.operator.forward(events, url, this.options.forward, deed(input), {
          sign,
          body: edited,
          ...(id !== undefined && { id }),
        });
      }
      case 'park': {
        const input = read(ACTION_INPUT.park, body, name);
        return { parked: await this.operator.park(input.ids, deed(input)) };
      }
      case 'decide': {
        const input = read(ACTION_INPUT.decide, body, name);
        const decided = await this.operator.decide(input.id, input.decision, deed(input));
        return decided ? { decided } : { decided, why: await this.operator.whyUnchanged(input.id) };
      }
      case 'cancel': {
        const input = read(ACTION_INPUT.cancel, body, name);
        const cancelled = await this.operator.cancel(input.id, deed(input));
        return cancelled ? { cancelled } : { cancelled, why: await this.operator.whyUnchanged(input.id) };
      }
      case 'erase': {
        const input = read(ACTION_INPUT.erase, body, name);
        return this.operator.erase(input.event, deed(input));
      }
      case 'pause': {
        const input = read(ACTION_INPUT.pause, body, name);
        const { kind, name: of, paused } = input;
        if (!paused) return { changed: await this.operator.resume(kind, of, deed(input)) };
        if (kind === 'destination')
          throw new InputRefused('pause.kind: pause the effect, not its destination');
        return { changed: await this.operator.pause(kind, of, deed(input)) };
      }
      default:
        throw new InputRefused('unknown action');
    }
  }

  /** Stored bytes that a person asked for, after their being shown was noted. */
  async revealed(body: unknown, by: string): Promise<{ bytes: Buffer; name: string }> {
    const input = read(ACTION_INPUT.reveal, body, 'reveal');
    const { event, effect, conflict } = input;
    const id = event ?? effect;
    if (id === undefined) throw new InputRefused('reveal: expected event or effect');
    const bytes = await this.stored(id, event !== undefined, conflict);
    if (!bytes) throw new InputRefused('there is no content: it was removed, or there is no such row');
    const how = input.download === true ? 'downloaded' : 'shown';
    const of = event === undefined ? 'effect' : conflict === undefined ? 'event' : 'conflict of event';
    const what = `${of} ${id}`;
    await this.operator.revealed(what, how, { by, reason: input.reason || LOOKED });
    return { bytes, name: `${id}.txt` };
  }

  private async stored(id: string, ofEvent: boolean, conflict: string | undefined) {
    if (!ofEvent) return this.inspector.payload(id);
    if (conflict !== undefined) return this.inspector.conflictBody(id, conflict);
    return (await this.inspector.body(id))?.body;
  }
}

function distinct(owners: readonly Owner[]): DashboardScope[] {
  const scopes = owners.map(scopeOf);
  return [...new Map(scopes.map((scope) => [JSON.stringify(scope), scope])).values()];
}
