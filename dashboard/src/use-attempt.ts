import { useState } from 'preact/hooks';
import { ApiError } from './api.ts';

/** Work that a click begins, with the error of the last one, to be shown. */
export function useAttempt(): readonly [ApiError | undefined, (work: () => Promise<unknown>) => void] {
  const [fault, setFault] = useState<ApiError>();
  const attempt = (work: () => Promise<unknown>) => {
    setFault(undefined);
    work().catch((error: unknown) =>
      setFault(error instanceof ApiError ? error : new ApiError('refused', String(error))),
    );
  };
  return [fault, attempt];
}
