import { existsSync } from 'node:fs';
import { isHeard, type InboxLogger } from './inbox.logger.js';
import { LogLine, MAX_VALUE, type Facts } from './log.js';

/** This package's own files: the folder of its sources, or of its build. A bundle has them in the application's. */
const OWN = ownFolder(import.meta.url);

/** @param url of this module; undefined where a bundler has made CommonJS of it */
function ownFolder(url: string | undefined): string | undefined {
  return url !== undefined && /\/core\/log\/stack\.[jt]s$/.test(url)
    ? placeOf(new URL('../..', url).href)
    : undefined;
}

/** Whether there is such a file. */
type IsThere = (file: string) => boolean;

/** Of a chain of causes, which may be a circle. */
const MAX_CAUSES = 5;

/**
 * Where an error comes from: `file:line:column` of the first frame of its stack that is the application's, neither a package's nor
 * Node's nor ours. Where an error that wraps another has none, that of its cause. A long path is cut at its beginning.
 */
export function placeOfError(error: unknown, own = OWN, isThere: IsThere = existsSync): string | undefined {
  const places = chain(error).flatMap((one) => frames(one).map(placeOfFrame));
  const isApplications = (at: string) =>
    at !== '' &&
    !at.includes('/node_modules/') &&
    !(own !== undefined && at.startsWith(own)) &&
    !isTypeOrms(at, isThere);
  const place = places.find(isApplications);
  return place !== undefined && place.length > MAX_VALUE
    ? `…${place.slice(1 - MAX_VALUE).replace(/^[\udc00-\udfff]/, '')}`
    : place;
}

/** Logs the whole stack at the level `debug`. */
export function logStack(logger: InboxLogger, error: unknown, facts: Facts): void {
  if (!isHeard('debug')) return;
  const stack = stackOf(error);
  if (stack !== '') logger.debug(new LogLine('the stack of it', facts, stack));
}

/**
 * The frames of an error's stack, and those of its causes. Messages are left out, since they may hold a payload or text that resembles a
 * frame.
 */
export function stackOf(error: unknown): string {
  return chain(error)
    .map(frames)
    .filter(({ length }) => length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n  caused at\n');
}

function chain(error: unknown): Error[] {
  const errors: Error[] = [];
  for (let one = error; one instanceof Error && errors.length <= MAX_CAUSES; one = one.cause)
    errors.push(one);
  return errors;
}

function frames(error: Error): string[] {
  const { message } = error;
  const stack = madeStack(error);
  if (typeof stack !== 'string' || typeof message !== 'string') return [];
  const told = stack.indexOf(message);
  return (told < 0 ? stack : stack.slice(told + message.length))
    .split('\n')
    .filter((line) => /^\s+at /.test(line));
}

/** An application may make stacks of its own (`Error.prepareStackTrace`), of any kind, and its code may fail. */
function madeStack(error: Error): unknown {
  try {
    return error.stack;
  } catch {
    return undefined;
  }
}

/** '' where the frame is of no file of the application: Node's own, native, made by `eval`. */
function placeOfFrame(line: string): string {
  const text = line.trim().replace(/^at (?:async )?/, '');
  const location = text.endsWith(')') ? text.slice(text.indexOf(' (') + 2, -1) : text;
  const isFile = /:\d+:\d+$/.test(location) && !/^node:|^eval at |<anonymous>/.test(location);
  return isFile ? placeOf(location) : '';
}

/** A file URL as a path, and slashes only, as on any system. */
function placeOf(location: string): string {
  const path = location.replaceAll('\\', '/');
  if (!path.startsWith('file://')) return path;
  const plain = path.replace(/^file:\/\/(?:\/(?=[a-z]:))?/i, '').replace(/[?#].*?(?=:\d+:\d+$)/, '');
  try {
    return decodeURIComponent(plain);
  } catch {
    return plain;
  }
}

/** TypeORM's source maps lead to a `src` beside `node_modules`, so that its frames seem to be the application's. */
function isTypeOrms(place: string, isThere: IsThere): boolean {
  const [, root, name] = /^(.*)\/src\/(.*)\.ts:\d+:\d+$/.exec(place) ?? [];
  if (name === undefined || isThere(`${root}/src/${name}.ts`)) return false;
  return isThere(`${root}/node_modules/typeorm/${name}.js`);
}
