/**
 * `/ui/jobs/:id/groups`: the trajectory groups a job trained on, how rewards spread over them, and which taught nothing.
 */

import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import { GROUP_ORDERS } from '#contract/wire/training/rollout-words.js'
import type { RolloutGroup, RolloutGroupList, Spread } from '#contract/wire/training/rollouts.js'
import { hrefOf, query, route, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { formatCount, formatNumber, formatTime, plural, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { choiceOf, groupsPath, jobApi } from '../data/rollouts.js'
import { lowerWordsOf } from '../data/words.js'
import { Block, Empty, Failure } from '../parts/block.js'
import { CopyAs } from '../parts/copy-as.js'
import { Episodes } from '../parts/episodes.js'
import { Title } from '../parts/layout.js'
import { usePlaces } from '../parts/page-keys.js'

const PAGE = 100
const ORDER_TITLES: Readonly<Record<(typeof GROUP_ORDERS)[number], string>> = {
  index: 'as they were sent',
  mean_reward: 'lowest reward first',
  '-mean_reward': 'highest reward first',
  reward_std_dev: 'least spread first',
  '-reward_std_dev': 'most spread first',
  entropy: 'lowest entropy first',
  '-entropy': 'highest entropy first',
  '-tokens': 'longest first',
}

export function RolloutsPage(): JSX.Element {
  const { id = '' } = route.value.params
  const chosen = choiceOf(query.value)
  const path = jobApi(id, `/groups?limit=${PAGE}${chosen === '' ? '' : `&${chosen}`}`)
  const groups = useLoad(path, (signal) => ask<RolloutGroupList>(path, { signal }))
  return (
    <>
      <Title text="Rollouts">
        <p class="actions">
          <a class="button" href={hrefOf(`/jobs/${encodeURIComponent(id)}/grader`)}>
            Try a reward
          </a>
          <a class="button" href={hrefOf(`/jobs/${encodeURIComponent(id)}`)}>
            The job
          </a>
        </p>
      </Title>
      <Block of={groups} height="30rem">
        {(list) => <Shown key={path} id={id} path={path} first={list} />}
      </Block>
      <CopyAs cli={command`trainyard jobs groups ${id}`} path={jobApi(id, '/groups')} />
    </>
  )
}

function Shown(props: { readonly id: string; readonly path: string; readonly first: RolloutGroupList }): JSX.Element {
  const { id, first } = props
  const [more, setMore] = useState<readonly RolloutGroup[]>([])
  const [hasMore, setHasMore] = useState(first.has_more)
  const [problem, setProblem] = useState<ApiError | null>(null)
  useEffect(() => setHasMore(first.has_more), [first])
  const rows = [...first.data, ...more]
  usePlaces(() => ({ j: rows[0] === undefined ? null : groupsPath(id, `/${rows[0].index}`) }))
  async function readMore(): Promise<void> {
    setProblem(null)
    try {
      const last = rows.at(-1)?.id ?? ''
      const page = await ask<RolloutGroupList>(`${props.path}&after=${last}`)
      setMore([...more, ...page.data])
      setHasMore(page.has_more)
    } catch (error) {
      setProblem(toApiError(error))
    }
  }
  const left = first.trajectory_count - first.trained_count
  return (
    <>
      <p class="soft">
        {plural(first.group_count, 'group')}, {formatCount(first.trained_count)} of{' '}
        {first.trajectory_count === 1 ? '1 trajectory' : `${formatCount(first.trajectory_count)} trajectories`} trained
        {first.zero_advantage_count > 0 ? `, ${formatCount(first.zero_advantage_count)} of them with advantage 0` : ''}
        {left > 0 ? `, ${formatCount(left)} taught nothing` : ''} · went on from step {first.parent_step}
        {first.kept_until === '' ? '' : ` · kept until ${formatTime(first.kept_until, nowMs())}`}
      </p>
      {first.unnoted_count > 0 && (
        <ul class="warnings open">
          <li>
            Of {plural(first.unnoted_count, 'sequence')} that trained no tokens were kept: there were too many, or an
            earlier attempt of the job trained them.
          </li>
        </ul>
      )}
      {first.untrained_count > 0 && (
        <ul class="warnings open">
          <li>
            {plural(first.untrained_count, 'sequence')} did not train: the job ended before{' '}
            {first.untrained_count === 1 ? 'its' : 'their'} step.
          </li>
        </ul>
      )}
      <Episodes of={first} />
      <Histogram list={first} />
      <Filters />
      {rows.length === 0 ? <Empty>No group is like this.</Empty> : <Groups id={id} rows={rows} />}
      {problem !== null && <Failure error={problem} />}
      {hasMore && (
        <p>
          <button type="button" onClick={() => void readMore()}>
            More groups
          </button>
        </p>
      )}
    </>
  )
}

/** Rewards of what is shown; a bar is a filter. */
function Histogram({ list }: { readonly list: RolloutGroupList }): JSX.Element | null {
  const most = list.histogram.reduce((max, { count }) => Math.max(max, count), 0)
  if (most === 0) return null
  const isFiltered = query.value.has('min_reward') || query.value.has('max_reward')
  return (
    <section class="card rewards" aria-labelledby="rewards">
      <div class="row">
        <h2 id="rewards">Rewards</h2>
        {isFiltered && (
          <button type="button" class="link" onClick={() => setQuery({ min_reward: null, max_reward: null })}>
            Show all
          </button>
        )}
      </div>
      <ul class="reward-bars">
        {list.histogram.map(({ from, to, count }) => {
          const name = from === to ? formatNumber(from) : `${formatNumber(from)} to ${formatNumber(to)}`
          const isChosen =
            query.value.get('min_reward') === String(from) && query.value.get('max_reward') === String(to)
          return (
            <li key={from}>
              <button
                type="button"
                class="reward-bar"
                aria-pressed={isChosen}
                onClick={() =>
                  setQuery(
                    isChosen
                      ? { min_reward: null, max_reward: null }
                      : { min_reward: String(from), max_reward: String(to) },
                  )
                }
              >
                <span class="number">
                  <span class="visually-hidden">Reward </span>
                  {name}
                </span>
                <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={count === 0 ? 0 : Math.max(1, (100 * count) / most)} height="10" />
                </svg>
                <span>
                  {formatCount(count)}{' '}
                  <span class="visually-hidden">{count === 1 ? 'trajectory' : 'trajectories'}</span>
                </span>
              </button>
            </li>
          )
        })}
      </ul>
    </section>
  )
}

function Filters(): JSX.Element {
  return (
    <div class="row options">
      <label>
        Order{' '}
        <select
          value={query.value.get('sort') ?? 'index'}
          onChange={(event) =>
            setQuery({ sort: event.currentTarget.value === 'index' ? null : event.currentTarget.value })
          }
        >
          {GROUP_ORDERS.map((order) => (
            <option key={order} value={order}>
              {ORDER_TITLES[order]}
            </option>
          ))}
        </select>
      </label>
      <label>
        Show{' '}
        <select
          value={query.value.get('trained') ?? ''}
          onChange={(event) =>
            setQuery({ trained: event.currentTarget.value === '' ? null : event.currentTarget.value })
          }
        >
          <option value="">all groups</option>
          <option value="true">those that trained</option>
          <option value="false">those that taught nothing</option>
        </select>
      </label>
    </div>
  )
}

function Groups({ id, rows }: { readonly id: string; readonly rows: readonly RolloutGroup[] }): JSX.Element {
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Group</th>
            <th scope="col" class="number">
              n
            </th>
            <th scope="col" class="number">
              Reward
            </th>
            <th scope="col" class="number">
              Spread
            </th>
            <th scope="col" class="number">
              Advantage
            </th>
            <th scope="col" class="number">
              Tokens
            </th>
            <th scope="col" class="number">
              Entropy
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((group) => (
            <tr key={group.id} class={group.left_out === null ? '' : 'taught-nothing'}>
              <th scope="row" class="name group-name">
                <a href={hrefOf(groupsPath(id, `/${group.index}`))}>
                  {group.index} · {group.prompt_preview === '' ? 'no prompt' : withoutTurns(group.prompt_preview)}
                </a>
                {group.cut_off > 0 && <span class="tag">{group.cut_off} cut off</span>}
                {group.exceptions > 0 && <span class="tag">{group.exceptions} failed</span>}
              </th>
              <td data-label="Trajectories" class="number">
                {group.trajectories}
              </td>
              <td data-label="Reward" class="number">
                {formatNumber(group.mean_reward)}
              </td>
              <td data-label="Spread" class="number">
                {formatNumber(group.reward_std_dev)}
              </td>
              <td data-label="Advantage" class="number">
                {group.left_out === null ? between(group.advantage) : lowerWordsOf(group.left_out)}
              </td>
              <td data-label="Tokens" class="number">
                {between(group.tokens)}
              </td>
              <td data-label="Entropy" class="number">
                {formatNumber(group.entropy)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function between(spread: Spread): string {
  if (spread === null) return '–'
  const [low, high] = [formatNumber(spread.min), formatNumber(spread.max)]
  return low === high ? low : `${low} … ${high}`
}
