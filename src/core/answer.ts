/** An HTTP answer. A string body is sent as it is, an object as JSON. */
export interface Answer {
  readonly status: number;
  readonly body: string | Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}
