/**
 * `/ui/jobs/:id/groups/:group`: the members of a group beside each other, each with its reward and what it said.
 */

import type { JSX } from 'preact'
import { command } from '#contract/wire/command-words.js'
import type { RolloutGroupDetail } from '#contract/wire/training/rollouts.js'
import { hrefOf, query, route, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { formatNumber, plural, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { groupsPath, jobApi } from '../data/rollouts.js'
import { lowerWordsOf, wordsOf } from '../data/words.js'
import { Block, Empty } from '../parts/block.js'
import { CopyAs } from '../parts/copy-as.js'
import { Difference } from '../parts/difference.js'
import { Title } from '../parts/layout.js'
import { usePlaces } from '../parts/page-keys.js'

export function RolloutGroupPage(): JSX.Element {
  const { id = '', group = '' } = route.value.params
  const path = jobApi(id, `/groups/${encodeURIComponent(group)}`)
  const found = useLoad(path, (signal) => ask<RolloutGroupDetail>(path, { signal }))
  const index = Number(group)
  usePlaces(() => {
    const now = Number(route.value.params['group'])
    return {
      j: groupsPath(id, `/${now + 1}`),
      k: now === 0 ? null : groupsPath(id, `/${now - 1}`),
      u: groupsPath(id),
    }
  })
  return (
    <>
      <Title text={`Group ${group}`}>
        <p class="actions">
          {index > 0 && (
            <a class="button" href={hrefOf(groupsPath(id, `/${index - 1}`))}>
              Previous <kbd>k</kbd>
            </a>
          )}
          <a class="button" href={hrefOf(groupsPath(id, `/${index + 1}`))}>
            Next <kbd>j</kbd>
          </a>
          <a class="button" href={hrefOf(groupsPath(id))}>
            All groups
          </a>
        </p>
      </Title>
      <Block of={found} height="24rem">
        {(detail) => <Members id={id} group={detail} />}
      </Block>
      <CopyAs cli={command`trainyard jobs trajectory ${id} ${group} 0`} path={path} />
    </>
  )
}

function Members({ id, group }: { readonly id: string; readonly group: RolloutGroupDetail }): JSX.Element {
  const isSorted = query.value.get('sort') === 'reward'
  const isCompared = query.value.get('diff') === '1'
  const members = isSorted ? [...group.members].sort((a, b) => b.reward - a.reward) : group.members
  const [best] = [...group.members].sort((a, b) => b.reward - a.reward)
  return (
    <>
      <p class="raw said-to-all">{withoutTurns(group.prompt_preview)}</p>
      <Metadata of={group.metadata} />
      <p class="soft">
        {group.trajectories === 1 ? '1 trajectory' : `${group.trajectories} trajectories`} · mean reward{' '}
        {formatNumber(group.mean_reward)}, spread {formatNumber(group.reward_std_dev)}
        {group.left_out === null ? '' : ` · taught nothing: ${lowerWordsOf(group.left_out)}`}
      </p>
      <div class="row options">
        <label>
          <input
            type="checkbox"
            checked={isSorted}
            onChange={(event) => setQuery({ sort: event.currentTarget.checked ? 'reward' : null })}
          />
          Highest reward first
        </label>
        <label>
          <input
            type="checkbox"
            checked={isCompared}
            onChange={(event) => setQuery({ diff: event.currentTarget.checked ? '1' : null })}
          />
          Mark what the best does not have
        </label>
      </div>
      {members.length === 0 && <Empty>No trajectory was sent: every rollout of it failed.</Empty>}
      <ul class="plain members">
        {members.map((member) => (
          <li key={member.index} class="card member">
            <div class="row">
              <h2>
                <a href={hrefOf(groupsPath(id, `/${group.index}/${member.index}`))}>Trajectory {member.index}</a>
              </h2>
              <span class="tag">reward {formatNumber(member.reward)}</span>
              <span class="soft small">
                {member.advantage === null
                  ? `does not train: ${lowerWordsOf(member.left_out ?? '')}`
                  : `advantage ${formatNumber(member.advantage)} · ${plural(member.tokens, 'token')}`}
                {member.entropy === null ? '' : ` · entropy ${formatNumber(member.entropy)}`}
                {member.cut_off ? ' · cut off' : ''}
              </span>
            </div>
            {isCompared && best !== undefined && best.index !== member.index ? (
              <Difference text={member.answer} from={best.answer} />
            ) : (
              <p class="raw">{member.answer === '' ? '(no answer)' : member.answer}</p>
            )}
            {Object.keys(member.metrics).length > 0 && (
              <p class="soft small">
                {Object.entries(member.metrics)
                  .map(([name, value]) => `${lowerWordsOf(name)} ${formatNumber(value)}`)
                  .join(' · ')}
              </p>
            )}
          </li>
        ))}
      </ul>
      {group.failed.length > 0 && (
        <section class="stack" aria-labelledby="failed">
          <h2 id="failed">Rollouts that failed</h2>
          <ul class="plain">
            {group.failed.map(({ type, message }, i) => (
              <li key={i} class="card failed-rollout">
                <span class="status failed">{withoutTurns(type)}</span>
                <p class="raw">{withoutTurns(message)}</p>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  )
}

/** Values that are no line of a heading are in the API's answer. */
const MOST_FACTS = 6
const MOST_LETTERS = 120

/** What its sender says of a group: the environment and the task it was played in, among others. */
function Metadata({ of: metadata }: { readonly of: RolloutGroupDetail['metadata'] }): JSX.Element | null {
  const facts = Object.entries(metadata)
    .flatMap(([name, value]) => (typeof value === 'object' || value === '' ? [] : [[name, String(value)] as const]))
    .slice(0, MOST_FACTS)
  if (facts.length === 0) return null
  return (
    <dl class="figures">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{wordsOf(withoutTurns(name))}</dt>
          <dd title={value}>{withoutTurns(value.slice(0, MOST_LETTERS))}</dd>
        </div>
      ))}
    </dl>
  )
}
