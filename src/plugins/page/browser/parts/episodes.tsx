/**
 * What rollouts of a job came out of: the environments they were played in, and those that failed, by kind. A failure is data:
 * it is counted, and never trained on.
 */

import type { JSX } from 'preact'
import type { RolloutGroupList } from '#contract/wire/training/rollouts.js'
import { hrefOf } from '../data/address.js'
import { ask } from '../data/client.js'
import { formatCount, plural, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { groupsPath, jobApi } from '../data/rollouts.js'
import { wordsOf } from '../data/words.js'

type Facts = Pick<RolloutGroupList, 'failures' | 'environments' | 'trajectory_count'>

/** Null where there is nothing to say: answers of a program, none of which failed. */
export function Episodes({ of: facts }: { readonly of: Facts }): JSX.Element | null {
  // an older server says neither
  const { failures = [], environments = [] } = facts
  if (failures.length === 0 && environments.length === 0) return null
  const failed = failures.reduce((sum, { count }) => sum + count, 0)
  return (
    <dl class="figures card" aria-label="Episodes">
      {environments.length > 0 && (
        <div>
          <dt>{environments.length === 1 ? 'Environment' : 'Environments'}</dt>
          {environments.map(({ name, groups }) => (
            <dd key={name}>
              {withoutTurns(name)} <span class="soft">{plural(groups, 'group')}</span>
            </dd>
          ))}
        </div>
      )}
      <div>
        <dt>Rollouts that failed</dt>
        <dd>
          {formatCount(failed)} of {formatCount(failed + facts.trajectory_count)}
        </dd>
      </div>
      {failures.map(({ type, count }) => (
        <div key={type}>
          <dt title={withoutTurns(type)}>{wordsOf(withoutTurns(type))}</dt>
          <dd>{formatCount(count)}</dd>
        </div>
      ))}
    </dl>
  )
}

/** The same on the page of a job, whose rollouts are a page further. */
export function EpisodesOfJob({ id }: { readonly id: string }): JSX.Element | null {
  const path = jobApi(id, '/groups?limit=1')
  const list = useLoad(path, (signal) => ask<RolloutGroupList>(path, { signal }))
  if (list.data === null) return null
  const { failures = [] } = list.data
  return (
    <>
      <Episodes of={list.data} />
      {failures.length > 0 && (
        <p class="soft small">
          What each said stands in <a href={hrefOf(groupsPath(id))}>its group</a>.
        </p>
      )}
    </>
  )
}
