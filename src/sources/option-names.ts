import { didYouMean } from '../core/options/did-you-mean.js';
import { ConfigurationError } from '../core/errors.js';

/**
 * A mistyped option would be ignored, and its default used without a word.
 * @throws ConfigurationError naming the nearest known option
 */
export function refuseUnknownOptions(provider: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (!known.includes(name))
      throw new ConfigurationError(`${provider}.${name}: unknown option${didYouMean(name, known)}`);
  }
}
