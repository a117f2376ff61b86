import { FairQueue, type Queued } from '../../src/inbox/group-commit.js';

const item = (key: string, id: number, { rows = 1, bytes = 10 } = {}): Queued & { id: number } => ({
  key,
  id,
  rows,
  bytes,
});

describe('the queue of claims', () => {
  it('takes one of each key in turn, so that a flood waits behind itself', () => {
    const queue = new FairQueue<Queued & { id: number }>();
    for (let id = 0; id < 50; id += 1) queue.add(item('flood', id));
    queue.add(item('calm', 0));
    queue.add(item('other', 0));
    expect(queue.take(5, 1_000).map(({ key }) => key)).toEqual(['flood', 'calm', 'other', 'flood', 'flood']);
    expect(queue.take(100, 1_000).map(({ id }) => id)).toEqual(Array.from({ length: 47 }, (_, n) => n + 3));
    expect(queue.isEmpty).toBe(true);
  });

  it('keeps to the rows and the bytes of a batch, but takes what is larger than a batch by itself', () => {
    const queue = new FairQueue<Queued & { id: number }>();
    queue.add(item('a', 1, { rows: 500 }));
    queue.add(item('a', 2, { bytes: 60 }));
    queue.add(item('a', 3, { bytes: 60 }));
    queue.add(item('a', 4, { bytes: 40 }));
    expect(queue.bytes).toBe(170);
    const taken = [1, 2, 3].map(() => queue.take(100, 100).map(({ id }) => id));
    expect(taken).toEqual([[1], [2], [3, 4]]);
    expect(queue.take(100, 100)).toEqual([]);
    expect(queue.bytes).toBe(0);
  });

  it('drops from the front of each key what is over', () => {
    const queue = new FairQueue<Queued & { id: number }>();
    for (const id of [1, 2, 3]) for (const key of ['a', 'b']) queue.add(item(key, id));
    expect(queue.drop(({ id }) => id < 3).map(({ id }) => id)).toEqual([1, 1, 2, 2]);
    expect(queue.take(10, 1_000).map(({ id }) => id)).toEqual([3, 3]);
  });
});
