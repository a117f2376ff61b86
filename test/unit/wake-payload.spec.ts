import { readWakePayload, wakePayload } from '../../src/outbox/wake/wake-up.js';

describe('the payload of a notification', () => {
  it.each([[['stripe/grant', 'mail']], [['a "name"\n/of its own']], [undefined]])(
    'says who sent it, and of which names: %j',
    (names) => {
      expect(readWakePayload(wakePayload('me', names))).toEqual({ owner: 'me', names });
    },
  );

  it('names nothing rather than be longer than PostgreSQL takes', () => {
    const names = Array.from({ length: 100 }, (_, nth) => `${'ö'.repeat(100)}${nth}`);
    const payload = wakePayload('me', names);
    expect(Buffer.byteLength(payload)).toBeLessThan(8_000);
    expect(readWakePayload(payload)).toEqual({ owner: 'me', names: undefined });
  });

  it.each([
    [
      'that of a version that sent its name alone',
      '6d01a306-6db9-4caa-b191-42b4fe0c03f5',
      '6d01a306-6db9-4caa-b191-42b4fe0c03f5',
    ],
    ['none', undefined, undefined],
    ['JSON of another kind', '{"owner":"me"}', '{"owner":"me"}'],
    ['a number', '7', '7'],
    ['names that are none', '["me",7]', 'me'],
  ])('is taken for a commit of whatever rows: %s', (_, payload, owner) => {
    expect(readWakePayload(payload)).toEqual({ owner, names: undefined });
  });
});
