/** What a replay and a forward have in common. */
export interface BulkOptions<TReport> {
  /** Who asks for it; kept with it. */
  readonly by: string;
  /** Why; kept with it. */
  readonly reason: string;
  /** Events a second at most. @default no limit */
  readonly perSecond?: number;
  /** Id of one that was interrupted: events that it has taken are left out. @default a new one */
  readonly id?: string;
  readonly onProgress?: (report: TReport) => void;
  /** Stops between two events. */
  readonly signal?: AbortSignal;
}
