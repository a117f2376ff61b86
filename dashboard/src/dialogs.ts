import { useEffect, useState } from 'preact/hooks';

/** How many dialogs are open. While there is one, the page behind it asks nothing. */
let open = 0;
const listeners = new Set<() => void>();

/** Notes that a dialog is open until the returned function is called. */
export function dialogOpened(): () => void {
  change(1);
  return () => change(-1);
}

function change(by: 1 | -1): void {
  open += by;
  for (const listener of listeners) listener();
}

export function useDialogOpen(): boolean {
  const [isOpen, setOpen] = useState(open > 0);
  useEffect(() => {
    const changed = () => setOpen(open > 0);
    changed();
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  return isOpen;
}
