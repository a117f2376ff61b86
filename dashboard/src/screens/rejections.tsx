import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { FilterBox } from '../parts/filter-box.tsx';
import { Paged } from '../parts/more.tsx';
import { Empty, Facts, Foreign, Hints, PageHead, When } from '../parts/ui.tsx';
import { bytes, plural } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { Rejection } from '../types.ts';
import { usePages, type Page } from '../use-pages.ts';
import { reloadAll } from '../use-query.ts';
import { zoneName } from '../zone.ts';

interface Listed extends Page<Rejection> {
  readonly hints?: string[];
}

async function pageOf(q: string, after?: string, signal?: AbortSignal): Promise<Listed> {
  const { rejections, ...page } = await api.rejections(q, after, signal);
  return { ...page, items: rejections };
}

export function Rejections({ route }: { route: Route }) {
  const { keepsRejections } = useMeta();
  const q = route.query['q'] ?? '';
  const [, source = ''] = /(?:^|\s)source:([^\s,*]+)(?:\s|$)/.exec(q) ?? [];
  const canVerify = useCan('verify-again') && keepsRejections && source !== '';
  const [verifying, setVerifying] = useState(false);
  const pages = usePages<Rejection, Listed>(
    `rejections ${zoneName()} ${q}`,
    (after, signal) => pageOf(q, after, signal),
    10_000,
  );
  return (
    <>
      <PageHead title="Rejections" hint="Samples of rejected requests, with the most likely cause">
        {canVerify && (
          <button type="button" class="primary" onClick={() => setVerifying(true)}>
            Verify again…
          </button>
        )}
      </PageHead>
      <FilterBox
        list="rejections"
        value={q}
        onChange={(value) => (location.hash = href('rejections', { q: value }))}
      />
      <Hints of={pages.last?.hints} />
      {keepsRejections && source === '' && (
        <p class="hint">Name a source (source:stripe) to verify its requests again.</p>
      )}
      <Paged
        key={q}
        pages={pages}
        empty={
          <Empty title={q === '' ? 'Nothing was rejected' : 'No rejection matches'}>
            A wrong secret or a proxy that changes bodies would show up here.
          </Empty>
        }
      >
        {(rejections) => (
          <ul class="issues">
            {rejections.map((one) => (
              <Row key={one.id} one={one} />
            ))}
          </ul>
        )}
      </Paged>
      {verifying && (
        <ActDialog
          title={`Verify requests to ${source} again`}
          verb="Verify again"
          total={1}
          onClose={() => (setVerifying(false), reloadAll())}
          steps={async function* (reason) {
            let after: string | undefined;
            let taken = 0;
            let looked = 0;
            let notClaimed = 0;
            do {
              const report = await api.verifyAgain(source, after, reason);
              taken += report.taken;
              looked += report.looked;
              notClaimed += report.notClaimed;
              after = report.next;
              yield { done: looked };
            } while (after !== undefined);
            const rest =
              notClaimed > 0
                ? ` ${notClaimed} are right and could not be claimed now: verify them again later.`
                : '';
            return `${plural(looked, 'request')} verified again, ${taken} taken in as new events.${rest}`;
          }}
        >
          <p>
            With today’s secrets, as of their arrival. A right request becomes an event; the others stay here.
          </p>
        </ActDialog>
      )}
    </>
  );
}

function Row({ one }: { one: Rejection }) {
  return (
    <li>
      <details class="issue">
        <summary>
          <span class="issue-main">
            <span class="issue-error">{one.diagnosis.replaceAll('-', ' ')}</span>
            <span class="hint">
              {one.source}, {one.reason.replaceAll('-', ' ')}
            </span>
          </span>
          <span class="issue-side">
            {one.takenAs && <span class="tag">taken in</span>}
            {one.kept && <span class="tag">kept</span>}
            <When at={one.at} />
          </span>
        </summary>
        <p class="prose">
          <Foreign text={one.explanation} />
        </p>
        <Facts
          of={[
            ['Said', <Foreign text={one.detail} />],
            ['Request', `${one.method}, ${bytes(one.bytes)}, ${one.contentType || 'no content type'}`],
            ['Headers', <Foreign text={one.headerNames.join(', ')} />],
          ]}
        />
      </details>
    </li>
  );
}
