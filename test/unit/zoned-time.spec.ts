import { instantOf, isZone } from '../../src/core/time/zoned-time.js';

const at = (text: string, zone: string) => {
  const instant = instantOf(text, zone);
  return Number.isNaN(instant) ? 'no time' : new Date(instant).toISOString();
};

/** Days at whose beginning or end clocks are changed, in one of the zones. */
const CHANGES = [
  [2, 15],
  [3, 8],
  [3, 22],
  [3, 29],
  [4, 5],
  [10, 4],
  [10, 25],
  [11, 1],
] as const;

describe('a time of a zone', () => {
  it.each([
    ['2026-08-01', 'UTC', '2026-08-01T00:00:00.000Z'],
    ['2026-08-01T09:00', 'America/New_York', '2026-08-01T13:00:00.000Z'],
    ['2026-01-01 09:00', 'America/New_York', '2026-01-01T14:00:00.000Z'],
    ['2026-08-01T23:59:59.25', 'Asia/Kathmandu', '2026-08-01T18:14:59.250Z'],
    // An offset of its own counts, not the zone.
    ['2026-08-01T09:00Z', 'America/New_York', '2026-08-01T09:00:00.000Z'],
    ['2026-08-01 09:00+02:00', 'America/New_York', '2026-08-01T07:00:00.000Z'],
    ['2026-08-01T09:00:01.5-0930', 'America/New_York', '2026-08-01T18:30:01.500Z'],
    ['2026-08-01T00:00+23:59', 'UTC', '2026-07-31T00:01:00.000Z'],
    ['2026-08-01T00:00+24:00', 'UTC', 'no time'],
    ['2026-08-01T00:00+01:60', 'UTC', 'no time'],
    ['2026-02-30T00:00Z', 'UTC', 'no time'],
    // Clocks go forward: 02:30 is skipped in Berlin on this day. Then back: 02:30 comes twice.
    ['2026-03-29T01:59:59', 'Europe/Berlin', '2026-03-29T00:59:59.000Z'],
    ['2026-03-29T02:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-03-29T03:00', 'Europe/Berlin', '2026-03-29T01:00:00.000Z'],
    ['2026-10-25T02:30', 'Europe/Berlin', '2026-10-25T00:30:00.000Z'],
    ['2026-10-25T03:00', 'Europe/Berlin', '2026-10-25T02:00:00.000Z'],
    // Lord Howe's clocks move by half an hour.
    ['2026-04-05T01:45', 'Australia/Lord_Howe', '2026-04-04T14:45:00.000Z'],
  ])('%s in %s', (text, zone, expected) => {
    expect(at(text, zone)).toBe(expected);
  });

  it.each(['2026-02-29', '2026-02-30', '2026-04-31', '2026-00-10', '2026-13-01', '2026-08-00', '2026-08-32'])(
    '%s is no day',
    (text) => expect(at(text, 'UTC')).toBe('no time'),
  );

  it.each([
    '2026-08-01T24:00',
    '2026-08-01T00:60',
    '2026-08-01T00:00:60',
    '2026-08-01T9:00',
    'yesterday',
    '',
  ])('%p is no time', (text) => expect(at(text, 'UTC')).toBe('no time'));

  it.each(['2026-08-01T23:59:59', '2026-02-28', '2028-02-29', '2026-12-31T00:00'])('%s is one', (text) =>
    expect(at(text, 'UTC')).not.toBe('no time'),
  );

  // Around the changes of clocks of a year, in zones with all kinds of them.
  it.each([
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Asia/Kathmandu',
    'Africa/Casablanca',
    'Pacific/Apia',
  ])('is the instant at which clocks of %s show it', (zone) => {
    const clock = new Intl.DateTimeFormat('sv-SE', {
      timeZone: zone,
      dateStyle: 'short',
      timeStyle: 'medium',
    });
    for (const [month, day] of CHANGES) {
      const around = Date.UTC(2026, month - 1, day);
      for (let hours = -16; hours <= 8; hours += 0.75) {
        const instant = around + hours * 3_600_000;
        const shown = clock.format(instant);
        const found = instantOf(shown, zone);
        expect([clock.format(found), found <= instant]).toEqual([shown, true]);
      }
    }
  });
});

it.each([
  ['Europe/Berlin', true],
  ['UTC', true],
  ['Mars/Olympus', false],
  ['', false],
])('%p is a zone: %p', (name, expected) => expect(isZone(name)).toBe(expected));
