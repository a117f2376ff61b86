const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Milliseconds, for the facts of a provider. */
export const seconds = (n: number): number => n * SECOND;
export const minutes = (n: number): number => n * MINUTE;
export const hours = (n: number): number => n * HOUR;
export const days = (n: number): number => n * DAY;
