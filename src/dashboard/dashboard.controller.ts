import {
  Controller,
  Get,
  HttpCode,
  Inject,
  Post,
  Req,
  Res,
  UseGuards,
  VERSION_NEUTRAL,
  createParamDecorator,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { NotInOpenApi } from '../core/not-in-openapi.js';
import { fromReplica } from '../storage/postgres/replica.js';
import { DashboardActions, PERMISSION, isAction } from './dashboard.actions.js';
import { DashboardLists } from './dashboard.lists.js';
import {
  DASHBOARD,
  DASHBOARD_ACTIONS,
  type DashboardAction,
  type DashboardScope,
  type ResolvedDashboard,
} from './dashboard.options.js';
import { Refused, faultOf } from './faults.js';
import type { ActionName } from './input.js';
import { PageFiles } from './page.files.js';
import { Reply } from './reply.js';
import { Rights, scopeOf } from './rights.js';
import { crossSiteFault, foreignNameFault, type HeadersOf } from './same-origin.js';

interface DashboardRequest extends HeadersOf {
  readonly originalUrl?: string;
  readonly url: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/** The context of this very request, for the application's permission callback. */
const Context = createParamDecorator((_: unknown, context: ExecutionContext) => context);

/** Page and API behind the application's guards. Every handler writes its answer itself: see `Reply`. */
export function dashboardController(
  path: string,
  guards: readonly (Type<CanActivate> | CanActivate)[],
): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @NotInOpenApi()
  @UseGuards(...guards)
  class WebhooksDashboardController {
    private readonly logger = new InboxLogger();

    constructor(
      @Inject(DASHBOARD) private readonly options: ResolvedDashboard,
      private readonly lists: DashboardLists,
      private readonly actions: DashboardActions,
      private readonly files: PageFiles,
      private readonly reply: Reply,
    ) {}

    @Get()
    async page(
      @Req() request: DashboardRequest,
      @Res() response: unknown,
      @Context() context: ExecutionContext,
    ): Promise<void> {
      await this.answer(response, async () => {
        await this.entered(context);
        const html = this.files.html(baseOf(request));
        if (html === undefined) throw new Refused(503, 'the page was not built: run npm run build:dashboard');
        this.reply.send(response, html, 200, { 'content-type': 'text/html; charset=utf-8' });
      });
    }

    @Get('assets/:file')
    asset(@Req() request: DashboardRequest, @Res() response: unknown): void {
      const file = this.files.asset(request.params['file'] ?? '');
      if (file === undefined) {
        this.reply.json(response, { error: 'not found' }, 404);
        return;
      }
      const gzip = String(request.headers['accept-encoding'] ?? '').includes('gzip');
      this.reply.send(response, gzip ? file.gzipped : file.bytes, 200, {
        'content-type': file.type,
        // Names carry a hash of the content.
        'cache-control': 'private, max-age=31536000, immutable',
        vary: 'accept-encoding',
        ...(gzip ? { 'content-encoding': 'gzip' } : {}),
      });
    }

    @Get('api/meta')
    async meta(@Res() response: unknown, @Context() context: ExecutionContext): Promise<void> {
      await this.answer(response, async () => {
        const rights = await this.entered(context);
        const { readOnly, payloads, unauthenticated, signInUrl, sourceLink } = this.options;
        const sources = this.lists.sources();
        const can: DashboardAction[] = [];
        for (const action of DASHBOARD_ACTIONS)
          if (this.offers(action) && (await rights.mayAnywhere(action, sources))) can.push(action);
        const meta = {
          ...(await this.lists.meta(rights)),
          sources: (await rights.visible(sources)) ?? sources,
          seesAll: await rights.may('view'),
          readOnly,
          payloads,
          unauthenticated,
          ...(signInUrl === undefined ? {} : { signInUrl }),
          ...(sourceLink === undefined ? {} : { sourceLink }),
          root: `${process.cwd().replaceAll('\\', '/')}/`,
          can,
          actor: this.actor(context),
        };
        this.reply.json(response, meta);
      });
    }

    @Get('api/events/:id')
    async event(
      @Req() request: DashboardRequest,
      @Res() response: unknown,
      @Context() context: ExecutionContext,
    ): Promise<void> {
      await this.answer(response, async () => {
        const rights = await this.entered(context);
        const find = () => this.lists.event(request.params['id'] ?? '', rights);
        // One that came a moment ago may not be on a replica yet.
        const event = (await listed(request, find)) ?? (await find());
        if (event === undefined) throw new Refused(404, 'there is no such event; it may have been pruned');
        const shown = this.options.payloads === 'shown' && (await rights.may('reveal', scopeOf(event)));
        const body = shown ? await this.lists.content(event.id) : undefined;
        this.reply.json(response, body === undefined ? event : { ...event, body });
      });
    }

    @Get(['api/:list', 'api/:list/:id'])
    async list(
      @Req() request: DashboardRequest,
      @Res() response: unknown,
      @Context() context: ExecutionContext,
    ): Promise<void> {
      await this.answer(response, async () => {
        const rights = await this.entered(context);
        const { list = '', id } = request.params;
        const found = await listed(request, () => this.lists.list(list, id, request.query, rights));
        if (found === undefined) throw new Refused(404, 'not found');
        this.reply.json(response, found);
      });
    }

    /** As an attachment, and by POST: a link to it must not show content or leave an audit row. */
    @Post('api/actions/download')
    @HttpCode(200)
    async download(
      @Req() request: DashboardRequest,
      @Res() response: unknown,
      @Context() context: ExecutionContext,
    ): Promise<void> {
      await this.answer(response, async () => {
        await this.allowChange('reveal', request, context);
        const { bytes, name } = await this.actions.revealed(
          { ...(request.body as object), download: true },
          this.actor(context),
        );
        this.reply.send(response, bytes, 200, {
          'content-type': 'application/octet-stream',
          'content-disposition': `attachment; filename="${name}"`,
        });
      });
    }

    @Post('api/actions/:action')
    @HttpCode(200)
    async act(
      @Req() request: DashboardRequest,
      @Res() response: unknown,
      @Context() context: ExecutionContext,
    ): Promise<void> {
      await this.answer(response, async () => {
        const action = request.params['action'] ?? '';
        if (!isAction(action)) throw new Refused(404, 'not found');
        await this.allowChange(action, request, context);
        this.reply.json(response, await this.actions.run(action, request.body, this.actor(context)));
      });
    }

    private async allowChange(
      action: ActionName,
      request: DashboardRequest,
      context: ExecutionContext,
    ): Promise<void> {
      const fault = crossSiteFault(request);
      if (fault !== undefined) throw new Refused(403, fault);
      if (!this.offers(PERMISSION[action])) throw new Refused(404, `'${action}' is not offered here`);
      const rights = this.rightsOf(context);
      if (typeof request.body !== 'object' || request.body === null)
        throw new Refused(400, 'expected a JSON object; does the application parse JSON bodies?');
      await rights.require(PERMISSION[action], await this.scopesOf(action, request.body, rights));
    }

    /** @throws InputRefused for a person who may do the action to something; Refused 403 for all others */
    private async scopesOf(action: ActionName, body: object, rights: Rights): Promise<DashboardScope[]> {
      try {
        return await this.actions.scopes(action, body);
      } catch (error) {
        if (await rights.mayAnywhere(PERMISSION[action], this.lists.sources())) throw error;
        throw new Refused(403, `'${PERMISSION[action]}' is not allowed`);
      }
    }

    /** @throws Refused 403 for a person who may see nothing */
    private async entered(context: ExecutionContext): Promise<Rights> {
      const rights = this.rightsOf(context);
      if (!(await rights.mayAnywhere('view', this.lists.sources())))
        throw new Refused(403, `'view' is not allowed`);
      return rights;
    }

    /** @throws Refused 403 for a name that is not this machine's own, where there is no guard */
    private rightsOf(context: ExecutionContext): Rights {
      const request = context.switchToHttp().getRequest<DashboardRequest>();
      const fault = this.options.unauthenticated ? foreignNameFault(request) : undefined;
      if (fault !== undefined) throw new Refused(403, fault);
      return new Rights(this.options.can, context);
    }

    private offers(action: DashboardAction): boolean {
      if (action === 'reveal') return this.options.payloads !== 'hidden';
      // A forward shows its payload to every reader of its destination.
      if (action === 'forward' && this.options.payloads === 'hidden') return false;
      return action === 'view' || !this.options.readOnly;
    }

    private actor(context: ExecutionContext): string {
      return this.options.actor(context) ?? (this.options.unauthenticated ? 'local' : 'unnamed');
    }

    /** Errors as short JSON: never a stack, a statement or a table's name. */
    private async answer(response: unknown, work: () => Promise<void>): Promise<void> {
      try {
        await work();
      } catch (error) {
        const [status, message] = faultOf(error, this.logger);
        this.reply.json(response, { error: message }, status);
      }
    }
  }
  return WebhooksDashboardController;
}

/** A read that decides nothing. The page asks for the newest state, as HTTP does, for a while after an action. */
function listed<T>({ headers }: DashboardRequest, read: () => Promise<T>): Promise<T> {
  return headers['cache-control'] === 'no-cache' ? read() : fromReplica(read);
}

/**
 * The assets' address relative to the page's own. The application may sit behind a proxy that strips a prefix, so the whole path is unknown
 * here.
 */
function baseOf(request: DashboardRequest): string {
  const path = (request.originalUrl ?? request.url).split('?', 1)[0]!;
  return path.endsWith('/') ? '.' : `./${path.slice(path.lastIndexOf('/') + 1)}`;
}
