const SMALLEST_BLOCK = 256;
const LARGEST_BLOCK = 1024 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * The bytes of a body, joined. A sender may send each byte in a chunk of its own, and a buffer for each would take two hundred times its
 * bytes. So chunks behind the first are copied into blocks that are as large as all before them, which at most doubles the memory.
 */
export class Chunks {
  private length = 0;
  private readonly blocks: Buffer[] = [];
  private block = NOTHING;
  private filled = 0;

  add(chunk: Buffer): void {
    const isFirst = this.length === 0;
    this.length += chunk.length;
    if (isFirst) {
      this.blocks.push(chunk);
      return;
    }
    const copied = chunk.copy(this.block, this.filled);
    this.filled += copied;
    if (copied < chunk.length) this.begin(chunk.subarray(copied));
  }

  /** Bytes of memory that it takes. */
  get capacity(): number {
    return this.blocks.reduce((sum, block) => sum + block.length, 0);
  }

  clear(): void {
    this.blocks.length = 0;
    this.block = NOTHING;
    this.filled = this.length = 0;
  }

  toBuffer(): Buffer {
    if (this.blocks.length === 1) return this.blocks[0]!;
    return Buffer.concat(this.blocks, this.length);
  }

  private begin(rest: Buffer): void {
    const size = Math.min(Math.max(this.length - rest.length, SMALLEST_BLOCK), LARGEST_BLOCK);
    this.block = Buffer.allocUnsafeSlow(Math.max(size, rest.length));
    this.blocks.push(this.block);
    this.filled = rest.copy(this.block);
  }
}
