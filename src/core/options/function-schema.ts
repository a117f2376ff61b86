import { z } from 'zod';
import { writtenAs } from '../lazy.js';

/** A function that runs when it is called. A generator function only makes a generator. */
export const fn = <T>() =>
  z
    .custom<T>((value) => typeof value === 'function', { error: 'expected a function' })
    .refine((value) => writtenAs(value) !== 'generator', {
      error: 'expected a function, received a generator function, whose code would never run',
    });

/** For functions whose answer is used as it is. */
export const answering = <T>() =>
  fn<T>().refine((value) => writtenAs(value) !== 'async', {
    error: 'expected a function that answers at once, received an async function',
  });
