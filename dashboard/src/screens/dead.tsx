import { useState } from 'preact/hooks';
import { api, type NotRevived } from '../api.ts';
import { useCan } from '../app-context.ts';
import { ActDialog, inParts, revivedText } from '../parts/act-dialog.tsx';
import { Empty, Foreign, Loaded, PageHead, Panel, State, When } from '../parts/ui.tsx';
import { count, plural } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { DeadGroup, DeadRow } from '../types.ts';
import { useQuery } from '../use-query.ts';
import { eventLink } from './event.tsx';

export function Dead({ route }: { route: Route }) {
  return route.id === undefined ? <Groups /> : <Group fingerprint={route.id} />;
}

function Groups() {
  const query = useQuery('dead', api.dead, 10_000);
  return (
    <>
      <PageHead title="Dead letters" hint="What will not be tried again without you, grouped by its error" />
      <Loaded query={query}>
        {({ groups }) =>
          groups.length === 0 ? (
            <Empty title="Nothing is dead">
              Work that used up its attempts, or failed for good, would show up here.
            </Empty>
          ) : (
            <ul class="issues">
              {groups.map((group) => (
                <li key={group.fingerprint}>
                  <a class="issue" href={href(`dead/${group.fingerprint}`)}>
                    <span class="issue-main">
                      <span class="issue-error">
                        <Foreign text={group.error ?? group.reason} lines={2} />
                      </span>
                      <span class="hint">
                        {group.name}, {(group.reason ?? '').replaceAll('-', ' ')}
                        {group.reopened && <span class="tag bad">again after it was resolved</span>}
                      </span>
                    </span>
                    <span class="issue-side">
                      <State of={group.state} />
                      <strong class="num">{count(group.count)}</strong>
                      <When at={group.lastAt} />
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </>
  );
}

function Group({ fingerprint }: { fingerprint: string }) {
  const groups = useQuery('dead', api.dead, 10_000);
  const rows = useQuery(`dead ${fingerprint}`, () => api.deadRows(fingerprint), 10_000);
  const [doing, setDoing] = useState<'revive' | 'give-up' | DeadGroup['state'] | undefined>();
  const canRevive = useCan('revive');
  const canGiveUp = useCan('give-up');
  const canMark = useCan('issue');
  const group = groups.data?.groups.find((one) => one.fingerprint === fingerprint);
  const all = rows.data?.rows ?? [];
  const close = () => {
    setDoing(undefined);
    groups.reload();
    rows.reload();
  };
  return (
    <>
      <PageHead
        title={group?.name ?? 'Dead letters'}
        hint={group ? plural(group.count, 'dead row') : undefined}
      >
        {canMark && group && group.state !== 'acknowledged' && (
          <button type="button" onClick={() => setDoing('acknowledged')}>
            Acknowledge…
          </button>
        )}
        {canMark && group && group.state !== 'resolved' && (
          <button type="button" onClick={() => setDoing('resolved')}>
            Resolve…
          </button>
        )}
        {canMark && group && group.state !== 'open' && (
          <button type="button" onClick={() => setDoing('open')}>
            Reopen…
          </button>
        )}
        {canGiveUp && all.length > 0 && group?.reason !== 'given-up' && (
          <button type="button" onClick={() => setDoing('give-up')}>
            Give up {count(all.length)}…
          </button>
        )}
        {canRevive && all.length > 0 && (
          <button type="button" class="primary" onClick={() => setDoing('revive')}>
            Revive {count(all.length)}…
          </button>
        )}
      </PageHead>
      {group && (
        <Panel title="Error" aside={<State of={group.state} />}>
          <pre class="error" tabIndex={0} role="region" aria-label="Error">
            <Foreign text={group.error ?? group.reason} />
          </pre>
          {group.note && (
            <p class="hint">
              {group.actor}: <Foreign text={group.note} />
            </p>
          )}
        </Panel>
      )}
      <Loaded query={rows}>
        {() =>
          all.length === 0 ? (
            <Empty title="Nothing of this is dead any more">
              <a href={href('dead')}>All dead letters</a>
            </Empty>
          ) : (
            <Rows rows={all} />
          )
        }
      </Loaded>
      {doing === 'revive' && (
        <ActDialog
          title={`Revive ${plural(all.length, 'row')}`}
          verb="Revive"
          total={all.length}
          onClose={close}
          steps={async function* (reason) {
            const ids = all.map((row) => row.id);
            const others: NotRevived[] = [];
            const revived = yield* inParts(ids, 100, async (part) => {
              const report = await api.revive(part, reason);
              others.push(...(report.others ?? []));
              return report.revived.length;
            });
            return revivedText(revived, others);
          }}
        >
          <p>Each gets new attempts, from now. Effects that are done are not done again.</p>
        </ActDialog>
      )}
      {doing === 'give-up' && (
        <ActDialog
          title={`Give up ${plural(all.length, 'row')}`}
          verb="Give up"
          danger
          total={all.length}
          onClose={close}
          steps={async function* (reason) {
            const ids = all.map((row) => row.id);
            const givenUp = yield* inParts(
              ids,
              100,
              async (part) => (await api.giveUp(part, reason)).givenUp.length,
            );
            return `${plural(givenUp, 'row')} given up.`;
          }}
        >
          <p>
            They stay dead, with their error: no redelivery starts them again, and what waits behind them in
            the order of a key goes on. You can still revive or replay them.
          </p>
        </ActDialog>
      )}
      {doing !== undefined && doing !== 'revive' && doing !== 'give-up' && (
        <ActDialog
          title={{ acknowledged: 'Acknowledge', resolved: 'Resolve', open: 'Reopen' }[doing]}
          verb={{ acknowledged: 'Acknowledge', resolved: 'Resolve', open: 'Reopen' }[doing]}
          total={1}
          onClose={close}
          steps={async function* (reason) {
            await api.issue(fingerprint, doing, reason);
            yield { done: 1 };
            return `Marked as ${doing}.`;
          }}
        >
          <p>
            {doing === 'resolved'
              ? 'It opens again by itself when another row dies of this error.'
              : doing === 'acknowledged'
                ? 'Others see that someone is at it.'
                : 'Nobody is at it any more.'}
          </p>
        </ActDialog>
      )}
    </>
  );
}

function Rows({ rows }: { rows: DeadRow[] }) {
  return (
    <div class="table-wrap">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">Error</th>
            <th scope="col" class="num">
              Attempts
            </th>
            <th scope="col" class="end">
              Failed
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, 200).map((row) => (
            <tr key={row.id}>
              <td class="mono ellipsis">{eventLink(row.claimId, row.eventId ?? row.id)}</td>
              <td class="wide">
                <Foreign text={row.error} lines={1} />
              </td>
              <td class="num">{row.attempt}</td>
              <td class="end">
                <When at={row.failedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > 200 && <p class="hint">The newest 200 of {count(rows.length)} are shown.</p>}
    </div>
  );
}
