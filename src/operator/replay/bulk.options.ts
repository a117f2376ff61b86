/** Most rows or events that one call may act on; a person's larger selection goes in several calls. */
export const MAX_AT_ONCE = 500;

/** Options that a replay and a forward share. */
export interface BulkOptions<TReport> {
  /** The person who asks for it. It is kept in the audit. */
  readonly by: string;
  /** Why; kept with it. */
  readonly reason: string;
  /** Events a second at most. @default no limit */
  readonly perSecond?: number;
  /** Id of one that was interrupted: events that it has taken are left out. @default a new one */
  readonly id?: string;
  /**
   * Called after each event.
   * @param selected number of events in the selection
   */
  readonly onProgress?: (report: TReport, selected: number) => void;
  /** Stops between two events. */
  readonly signal?: AbortSignal;
}
