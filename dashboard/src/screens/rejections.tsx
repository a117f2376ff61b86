import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { Empty, Facts, Foreign, Loaded, PageHead, When } from '../parts/ui.tsx';
import { bytes, plural } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { Rejection } from '../types.ts';
import { useQuery } from '../use-query.ts';
import { Select } from './effects.tsx';

export function Rejections({ route }: { route: Route }) {
  const { sources, keepsRejections } = useMeta();
  const source = route.query['source'] ?? '';
  const canVerify = useCan('verify-again') && keepsRejections && source !== '';
  const [verifying, setVerifying] = useState(false);
  const query = useQuery(`rejections ${source}`, () => api.rejections({ source }), 10_000);
  return (
    <>
      <PageHead
        title="Rejections"
        hint="Samples of requests that were not believed, with what most likely is wrong"
      >
        {canVerify && (
          <button type="button" class="primary" onClick={() => setVerifying(true)}>
            Verify again…
          </button>
        )}
      </PageHead>
      <div class="choices">
        <Select
          label="Source"
          value={source}
          of={sources}
          onChange={(value) => (location.hash = href('rejections', { source: value }))}
        />
        {keepsRejections && source === '' && (
          <span class="hint">Choose a source to verify its requests again.</span>
        )}
      </div>
      <Loaded query={query}>
        {({ rejections }) =>
          rejections.length === 0 ? (
            <Empty title="Nothing was rejected">
              A wrong secret or a proxy that changes bodies would show up here.
            </Empty>
          ) : (
            <ul class="issues">
              {rejections.map((one) => (
                <Row key={one.id} one={one} />
              ))}
            </ul>
          )
        }
      </Loaded>
      {verifying && (
        <ActDialog
          title={`Verify requests to ${source} again`}
          verb="Verify again"
          total={1}
          onClose={() => (setVerifying(false), query.reload())}
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
            With today’s secrets, judged as of their arrival. What is right now becomes an event; the rest
            stays here.
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
