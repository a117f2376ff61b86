import type { ExecutionContext } from '@nestjs/common';
import type { DashboardAction, DashboardScope, ResolvedDashboard } from './dashboard.options.js';
import { Refused } from './faults.js';

/** A source and a tenant of it, as rows have them; null for work of no event. */
export interface Owner {
  readonly source: string | null;
  readonly tenant: string | null;
}

/** The rights of the person of one request. Each question is put to the application once. */
export class Rights {
  private readonly answers = new Map<string, Promise<boolean>>();

  constructor(
    private readonly can: ResolvedDashboard['can'],
    private readonly context: ExecutionContext,
  ) {}

  async may(action: DashboardAction, scope: DashboardScope = {}): Promise<boolean> {
    const key = JSON.stringify([action, scope.source, scope.tenant]);
    const known = this.answers.get(key);
    if (known !== undefined) return known;
    const asked = Promise.resolve(this.can(action, this.context, scope));
    this.answers.set(key, asked);
    return asked;
  }

  /**
   * The refusal does not say which: a person may ask about the id of a row that is not to be seen.
   * @throws Refused 403 where one of the scopes is not allowed; so is an empty list without the right to all
   */
  async require(action: DashboardAction, scopes: readonly DashboardScope[] = [{}]): Promise<void> {
    for (const scope of scopes.length > 0 ? scopes : [{}])
      if (!(await this.may(action, scope))) throw new Refused(403, `'${action}' is not allowed`);
  }

  /** Whether the person may do it to anything at all: to everything, or to one of these sources. */
  async mayAnywhere(action: DashboardAction, sources: readonly string[]): Promise<boolean> {
    if (await this.may(action)) return true;
    return (await this.allowed(action, sources)).length > 0;
  }

  /** The sources of these that may be seen, or revealed as well. Undefined when all may be, also sources that are not configured. */
  async visible(sources: readonly string[], also?: DashboardAction): Promise<readonly string[] | undefined> {
    let seen = await this.allowed('view', sources);
    if (also !== undefined) seen = await this.allowed(also, seen);
    const all = seen.length === sources.length && (await this.may('view'));
    return all && (also === undefined || (await this.may(also))) ? undefined : seen;
  }

  /** Of these rows those that may be seen, by source and tenant. */
  async seen<T extends Owner>(rows: readonly T[]): Promise<T[]> {
    const kept: T[] = [];
    for (const row of rows) if (await this.may('view', scopeOf(row))) kept.push(row);
    return kept;
  }

  private async allowed(action: DashboardAction, sources: readonly string[]): Promise<string[]> {
    const kept: string[] = [];
    for (const source of sources) if (await this.may(action, { source })) kept.push(source);
    return kept;
  }
}

/** A row without an event concerns everything. */
export function scopeOf({ source, tenant }: Owner): DashboardScope {
  return source === null ? {} : { source, tenant: tenant ?? '' };
}
