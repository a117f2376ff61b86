/** Where a command writes. The application's own output goes to `error`, so that `out` holds the command's answer alone. */
export interface Streams {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  /** Columns of the terminal behind `error`; undefined without a terminal. */
  readonly columns: number | undefined;
}

/**
 * Takes the process's standard output for the command's answer. Everything else that is printed, such as a line that the application
 * logs while it starts, goes to standard error: `--json | jq` reads JSON alone.
 */
export function ownStreams(): Streams {
  const { stdout, stderr } = process;
  const out = stdout.write.bind(stdout);
  const error = stderr.write.bind(stderr);
  stdout.write = error;
  // A reader such as `head` has gone, and the rest would not be read.
  stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1));
  return {
    out: (text) => void out(text),
    error: (text) => void error(text),
    columns: stderr.isTTY ? stderr.columns : undefined,
  };
}
