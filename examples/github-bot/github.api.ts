/** A comment as GitHub lists it. */
interface ListedComment {
  readonly id: number;
  readonly body: string;
}

/** As much of GitHub's API as the bot asks. */
export class GithubApi {
  constructor(
    private readonly url: string,
    private readonly token: string,
  ) {}

  async comment(repository: string, issue: number, body: string, signal: AbortSignal): Promise<void> {
    await this.send('POST', `/repos/${repository}/issues/${issue}/comments`, signal, { body });
  }

  comments(repository: string, issue: number, signal: AbortSignal): Promise<ListedComment[]> {
    return this.send('GET', `/repos/${repository}/issues/${issue}/comments?per_page=100`, signal);
  }

  /** @throws an error with the answer's `status`, which says whether another attempt can help */
  private async send<T>(method: string, path: string, signal: AbortSignal, body?: object): Promise<T> {
    const headers = { authorization: `Bearer ${this.token}`, accept: 'application/vnd.github+json' };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(new URL(path, this.url), { method, headers, signal, ...content });
    if (!response.ok) {
      await response.text();
      throw Object.assign(new Error(`GitHub answered ${response.status} to ${method} ${path}`), {
        status: response.status,
      });
    }
    return (await response.json()) as T;
  }
}
