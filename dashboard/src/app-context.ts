import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Meta } from './types.ts';

export const MetaContext = createContext<Meta | undefined>(undefined);

/** What the server said once: sources, permissions, how content is shown. */
export function useMeta(): Meta {
  const meta = useContext(MetaContext);
  if (meta === undefined) throw new Error('rendered before the server was asked');
  return meta;
}

/** Where to sign in again; undefined before the server was asked, and where the application names no page. */
export function useSignIn(): string | undefined {
  return useContext(MetaContext)?.signInUrl;
}

export function useCan(action: string): boolean {
  return useMeta().can.includes(action);
}
