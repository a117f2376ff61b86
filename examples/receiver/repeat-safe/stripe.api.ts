/** What Stripe says of a customer now. */
export interface Customer {
  readonly id: string;
  readonly email: string | null;
  readonly deleted?: boolean;
}

/** As much of Stripe's API as the handlers ask. */
export class StripeApi {
  constructor(
    private readonly url: string,
    private readonly key: string,
  ) {}

  /** @throws an error with the answer's `status`, by which the inbox tells what is worth another attempt */
  async customer(id: string, signal: AbortSignal): Promise<Customer> {
    const url = new URL(`/v1/customers/${encodeURIComponent(id)}`, this.url);
    const response = await fetch(url, { headers: { authorization: `Bearer ${this.key}` }, signal });
    if (!response.ok)
      throw Object.assign(new Error(`${url.pathname}: ${response.status}`), { status: response.status });
    return (await response.json()) as Customer;
  }
}
