/** The functions of a body that the budget calls. */
export interface HeldBody {
  readonly isAnswered: boolean;
  /** Called when others need its room; its bytes are given back by then. */
  giveUp(): void;
}

/** The bytes that the bodies of one source hold, or those of them that one address sends. */
export class Share {
  bytes = 0;
  /** Bodies that are counted. */
  bodies = 0;
  waitsUntil = -Infinity;
  /** Bodies that have not come to their end, the oldest first. These can be given up. */
  readonly arriving = new Set<Holding>();
  /** Shares of a source's addresses. */
  readonly parts = new Map<string, Share>();

  constructor(private readonly among: Map<string, Share>) {}

  static of(among: Map<string, Share>, key: string): Share {
    let share = among.get(key);
    if (share === undefined) among.set(key, (share = new Share(among)));
    return share;
  }

  /** Anyone may come from a million addresses. */
  forget(key: string): void {
    if (this.bodies === 0) this.among.delete(key);
  }
}

/** The budget, as a holding uses it. */
interface Budget {
  sharesOf(source: string, address: string): readonly [Share, Share];
  makeRoom(holding: Holding, bytes: number): boolean;
  count(bytes: number): void;
  markSlow(holding: Holding, isSlow: boolean): void;
  release(holding: Holding): void;
}

/** The bytes of one body, counted from the first of them to its answer, and to the end of all work with them. */
export class Holding {
  shares: readonly [Share, Share];
  private bytes = 0;
  private works = 0;
  private isArriving = true;
  private isCounted = false;
  /** Nothing more is taken: the body was answered, refused or given up. */
  private isClosed = false;

  constructor(
    private readonly budget: Budget,
    private readonly source: string,
    private readonly address: string,
    private readonly body: HeldBody,
  ) {
    this.shares = budget.sharesOf(source, address);
    this.enter();
    for (const share of this.shares) share.arriving.add(this);
  }

  /** False when there is no room for them, or nothing more is taken. */
  take(bytes: number): boolean {
    if (this.isClosed || !this.budget.makeRoom(this, bytes)) return false;
    // To make room, this very body may have been given up.
    this.change(bytes);
    return true;
  }

  giveBack(bytes: number): void {
    this.change(-bytes);
  }

  /** All of the body is here: it is not given up for others any more. */
  markArrived(): void {
    this.isArriving = false;
    for (const share of this.shares) share.arriving.delete(this);
    this.budget.markSlow(this, false);
  }

  markSlow(isSlow: boolean): void {
    this.budget.markSlow(this, isSlow && this.isArriving);
  }

  get isAnswered(): boolean {
    return this.body.isAnswered;
  }

  giveUp(): void {
    this.close();
    this.body.giveUp();
  }

  /** Keeps the bytes counted until `work` has ended, also when the answer comes before. */
  during<T>(work: Promise<T>): Promise<T> {
    // The host may begin with bodies that were answered already.
    if (!this.isCounted) this.enter();
    this.works += 1;
    const end = () => {
      this.works -= 1;
      this.leaveIfOver();
    };
    work.then(end, end);
    return work;
  }

  /** The body was answered, or its sender has gone. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.budget.release(this);
    this.markArrived();
    this.leaveIfOver();
  }

  private leaveIfOver(): void {
    if (!this.isClosed || this.works > 0 || !this.isCounted) return;
    this.isCounted = false;
    this.count(-this.bytes);
    for (const share of this.shares) share.bodies -= 1;
    this.shares[1].forget(this.address);
  }

  private enter(): void {
    this.shares = this.budget.sharesOf(this.source, this.address);
    this.isCounted = true;
    for (const share of this.shares) share.bodies += 1;
    this.count(this.bytes);
  }

  private change(bytes: number): void {
    this.bytes += bytes;
    if (this.isCounted) this.count(bytes);
  }

  private count(bytes: number): void {
    this.budget.count(bytes);
    for (const share of this.shares) share.bytes += bytes;
  }
}

/** The share with the most bytes, if they are more than `bytes` and a body of it can be given up; else `own`. */
export function largestOf(shares: ReadonlyMap<string, Share>, own: Share, bytes: number): Share {
  let largest = own;
  let most = bytes;
  for (const share of shares.values()) {
    if (share === own || share.arriving.size === 0 || share.bytes <= most) continue;
    largest = share;
    most = share.bytes;
  }
  return largest;
}

export function oldestOf({ arriving }: Share): Holding | undefined {
  const [oldest] = arriving;
  return oldest;
}
