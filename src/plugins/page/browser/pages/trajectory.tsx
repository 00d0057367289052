/**
 * `/ui/jobs/:id/groups/:group/:trajectory`: one trajectory turn by turn, and token by token with the numbers its trainer used.
 */

import type { JSX } from 'preact'
import { command } from '#contract/wire/command-words.js'
import type { RolloutTrajectory } from '#contract/wire/training/rollouts.js'
import { hrefOf, query, route, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { formatNumber, plural } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { groupsPath, jobApi } from '../data/rollouts.js'
import { COLOURS, type Colour } from '../data/token-colour.js'
import { lowerWordsOf, wordsOf } from '../data/words.js'
import { Block, Empty } from '../parts/block.js'
import { Conversation } from '../parts/conversation.js'
import { CopyAs } from '../parts/copy-as.js'
import { Title } from '../parts/layout.js'
import { TrajectoryMark } from '../parts/marks/trajectory-mark.js'
import { usePlaces } from '../parts/page-keys.js'
import { Legend, Tokens } from '../parts/tokens.js'

export function TrajectoryPage(): JSX.Element {
  const { id = '', group = '', trajectory = '' } = route.value.params
  const path = jobApi(id, `/groups/${encodeURIComponent(group)}/trajectories/${encodeURIComponent(trajectory)}`)
  const found = useLoad(path, (signal) => ask<RolloutTrajectory>(path, { signal }))
  const index = Number(trajectory)
  const size = found.data?.group_size ?? index + 1
  const at = (place: number): string => groupsPath(id, `/${group}/${place}`)
  const after = (place: number): string | null => (place + 1 < size ? at(place + 1) : null)
  const previous = (place: number): string | null => (place > 0 ? at(place - 1) : null)
  const [next, before] = [after(index), previous(index)]
  usePlaces(() => {
    const now = Number(route.value.params['trajectory'])
    return { j: after(now), k: previous(now), u: groupsPath(id, `/${group}`) }
  })
  return (
    <>
      <Title text={`Trajectory ${trajectory} of group ${group}`}>
        <p class="actions">
          {before !== null && (
            <a class="button" href={hrefOf(before)}>
              Previous <kbd>k</kbd>
            </a>
          )}
          {next !== null && (
            <a class="button" href={hrefOf(next)}>
              Next <kbd>j</kbd>
            </a>
          )}
          <a class="button" href={hrefOf(groupsPath(id, `/${group}`))}>
            The group
          </a>
        </p>
      </Title>
      <Block of={found} height="30rem">
        {(detail) => <Shown key={path} path={path} trajectory={detail} />}
      </Block>
      <CopyAs cli={command`trainyard jobs trajectory ${id} ${group} ${trajectory} --tokens`} path={`${path}/tokens`} />
    </>
  )
}

function Shown({ path, trajectory }: { readonly path: string; readonly trajectory: RolloutTrajectory }): JSX.Element {
  const { sequences, left_out: reason } = trajectory
  const sequence = Math.min(Number(query.value.get('sequence') ?? 0) || 0, Math.max(0, sequences.length - 1))
  const chosen = sequences[sequence]
  return (
    <>
      <Facts trajectory={trajectory} />
      <TrajectoryMark path={path} trajectory={trajectory} />
      <section class="stack" aria-labelledby="tokens">
        <h2 id="tokens">Tokens</h2>
        {chosen === undefined ? (
          <Empty>
            {reason === null
              ? 'No tokens were kept of it: there were too many, or an earlier attempt of the job trained them.'
              : `It did not train (${lowerWordsOf(reason)}), so there are no numbers of its tokens.`}
          </Empty>
        ) : (
          <>
            <TokenOptions count={sequences.length} sequence={sequence} />
            <Tokens
              key={sequence}
              path={path}
              sequence={sequence}
              length={chosen.length}
              colour={colourOf()}
              under={query.value.get('under')}
              hasSpaces={query.value.get('spaces') === '1'}
            />
          </>
        )}
      </section>
      <section class="stack" aria-labelledby="turns">
        <h2 id="turns">Turns</h2>
        <Conversation histories={trajectory.histories} />
      </section>
    </>
  )
}

function Facts({ trajectory }: { readonly trajectory: RolloutTrajectory }): JSX.Element {
  const { advantage, left_out: reason } = trajectory
  const facts: readonly (readonly [string, string])[] = [
    ['Reward', formatNumber(trajectory.reward)],
    ...(trajectory.shaped_reward === trajectory.reward
      ? []
      : [['Reward as shaped', formatNumber(trajectory.shaped_reward)] as const]),
    ['Advantage', advantage === null ? `none: ${lowerWordsOf(reason ?? '')}` : formatNumber(advantage)],
    ...(trajectory.weight === null ? [] : [['Weight', formatNumber(trajectory.weight)] as const]),
    ['Trained', plural(trajectory.tokens, 'token')],
    ...(trajectory.entropy === null ? [] : [['Entropy', formatNumber(trajectory.entropy)] as const]),
    ...(trajectory.sequences[0] === undefined
      ? []
      : [['Gradient step', String(trajectory.sequences[0].gradient_step)] as const]),
    ...(trajectory.initial_policy_version === null
      ? []
      : [['Sampled from step', String(trajectory.initial_policy_version)] as const]),
    ...Object.entries(trajectory.metrics).map(([name, value]) => [wordsOf(name), formatNumber(value)] as const),
    ...(trajectory.cut_off ? [['End', 'cut off by length'] as const] : []),
  ]
  return (
    <dl class="figures card">
      {facts.map(([title, value]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** A change has something to be a change to. */
function colourOf(): Colour {
  const asked = COLOURS.find((name) => name === query.value.get('c')) ?? 'probability'
  return asked === 'change' && query.value.get('under') === null ? 'probability' : asked
}

const TITLES: Readonly<Record<Colour, string>> = {
  none: 'nothing',
  probability: 'probability',
  entropy: 'entropy',
  ratio: 'ratio',
  change: 'change to the step below',
}

function TokenOptions({ count, sequence }: { readonly count: number; readonly sequence: number }): JSX.Element {
  const under = query.value.get('under')
  const colour = colourOf()
  const score = (text: string): void => setQuery({ under: text === '' ? null : text, c: text === '' ? null : 'change' })
  return (
    <div class="stack">
      <div class="row options">
        <label>
          Colour by{' '}
          <select value={colour} onChange={(event) => setQuery({ c: event.currentTarget.value })}>
            {COLOURS.filter((name) => name !== 'change' || under !== null).map((name) => (
              <option key={name} value={name}>
                {name === 'change' ? `change to step ${under}` : TITLES[name]}
              </option>
            ))}
          </select>
        </label>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault()
            const field = event.currentTarget.elements.namedItem('step')
            if (field instanceof HTMLInputElement) score(field.value.trim())
          }}
        >
          <label>
            Score under step{' '}
            <input
              name="step"
              class="step-field"
              inputMode="numeric"
              pattern="latest|[0-9]+"
              title="a step of the model, 0 for its base model, or latest"
              defaultValue={under ?? ''}
            />
          </label>
          <button type="submit">Score</button>
          {under !== null && (
            <button type="button" class="link" onClick={() => score('')}>
              Without
            </button>
          )}
        </form>
        <label>
          <input
            type="checkbox"
            checked={query.value.get('spaces') === '1'}
            onChange={(event) => setQuery({ spaces: event.currentTarget.checked ? '1' : null })}
          />
          Mark spaces
        </label>
        {count > 1 && (
          <label>
            Sequence{' '}
            <select
              value={String(sequence)}
              onChange={(event) => setQuery({ sequence: event.currentTarget.value, at: null })}
            >
              {Array.from({ length: count }, (_, i) => (
                <option key={i} value={String(i)}>
                  {i + 1} of {count}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Legend colour={colour} />
    </div>
  )
}
