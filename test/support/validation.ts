import { ValidationPipe } from '@nestjs/common';

/** A class whose instances say what is wrong with them. */
interface Validated {
  readonly constructor: { readonly problems?: (value: object) => string[] };
}

/** Nest's own ValidationPipe over classes with a static `problems`, in place of the package it takes its rules from. */
export const validationPipe = () =>
  new ValidationPipe({
    transform: true,
    transformerPackage: {
      plainToInstance: (type: new () => object, value: object) => Object.assign(new type(), value),
      classToPlain: (value: object) => value,
    } as never,
    validatorPackage: {
      validate: async (value: Validated) =>
        (value.constructor.problems?.(value) ?? []).map((problem) => ({
          property: problem,
          constraints: { problem },
          children: [],
        })),
    },
  });
