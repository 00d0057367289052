/**
 * `/ui/models/:project/:name/evaluations`: what was logged of a model, by step; and between two steps which prompts got better or worse.
 */

import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { LogComparison } from '#contract/wire/log-comparison.js'
import type { Model } from '#contract/wire/models.js'
import { OUTCOMES } from '#contract/wire/outcome-words.js'
import type { TrajectoryLog } from '#contract/wire/trajectories.js'
import { query, route, setQuery } from '../data/address.js'
import { ask, askAll } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { formatAgo, formatCount, formatNumber, plural } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { metricWords } from '../data/words.js'
import { Block, Empty } from '../parts/block.js'
import { Chart } from '../parts/chart.js'
import { CopyAs } from '../parts/copy-as.js'
import { ModelHeader, useCurves, useModel } from '../parts/model-header.js'
import { PairList } from '../parts/pairs.js'

const PAGE = 20
const MOST_LOGS = 500

export function EvaluationsPage(): JSX.Element {
  const { project = '', name = '' } = route.value.params
  const model = useModel(project, name)
  return (
    <>
      <ModelHeader project={project} name={name} tab="Evaluations" />
      <Block of={model} height="24rem">
        {(found) => <Logs key={found.id} model={found} />}
      </Block>
    </>
  )
}

function Logs({ model }: { readonly model: Model }): JSX.Element {
  const path = `/v1/preview/models/${encodeURIComponent(model.id)}/log`
  const logs = useLoad(path, (signal) => askAll<TrajectoryLog>(path, { signal, most: MOST_LOGS }), {
    topics: ['log'],
    modelId: model.id,
  })
  return (
    <>
      <Block of={logs} height="20rem">
        {({ data, hasMore }) =>
          data.length === 0 ? (
            <Empty command={command`trainyard eval ${model.name} --project ${model.project} --prompts held-out.jsonl`}>
              Nothing was logged yet: measure it on prompts that it does not train on, after each job.
            </Empty>
          ) : (
            <BySplit model={model} logs={data} hasMore={hasMore} />
          )
        }
      </Block>
      {logs.data?.data.length === 0 && (
        <CopyAs cli={command`trainyard models evaluations ${model.name} --project ${model.project}`} path={path} />
      )}
    </>
  )
}

/** One row a step: its logs together. */
interface StepRow {
  readonly step: number
  readonly prompts: number
  readonly answers: number
  readonly reward: number | null
  readonly at: string
}

function toRows(logs: readonly TrajectoryLog[], split: string): readonly StepRow[] {
  const rows = new Map<number, StepRow>()
  for (const log of logs) {
    if (log.split !== split) continue
    const before = rows.get(log.step)
    const reward = log.metrics[`${split}/reward`] ?? null
    const answers = (before?.answers ?? 0) + log.trajectories
    const sum = (before?.reward ?? 0) * (before?.answers ?? 0) + (reward ?? 0) * log.trajectories
    rows.set(log.step, {
      step: log.step,
      prompts: (before?.prompts ?? 0) + log.groups,
      answers,
      reward: reward === null && before === undefined ? null : sum / Math.max(1, answers),
      at: before?.at ?? log.created_at,
    })
  }
  return [...rows.values()].sort((a, b) => b.step - a.step)
}

function BySplit(props: {
  readonly model: Model
  readonly logs: readonly TrajectoryLog[]
  readonly hasMore: boolean
}): JSX.Element {
  const { model, logs } = props
  const splits = [...new Set(logs.map(({ split }) => split))]
  const split = splits.find((each) => each === query.value.get('split')) ?? splits[0] ?? ''
  const rows = useMemo(() => toRows(logs, split), [logs, split])
  const steps = rows.map(({ step }) => step)
  const stepOf = (name: string, fallback: number | undefined): number | undefined => {
    const text = query.value.get(name)
    const step = text === null ? Number.NaN : Number(text)
    return steps.includes(step) ? step : fallback
  }
  const a = stepOf('a', steps.at(-1))
  const b = stepOf('b', steps[0])
  const curves = useCurves(model.id)
  const values = curves.data?.series[`${split}/reward`]
  const lines = useMemo(() => [{ name: metricWords(`${split}/reward`), values: values ?? [] }], [values, split])
  const at = nowMs()
  return (
    <>
      <div class="row options">
        <label>
          Split{' '}
          <select value={split} onChange={(event) => setQuery({ split: event.currentTarget.value, a: null, b: null })}>
            {splits.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      {curves.data !== null && values !== undefined && rows.length > 1 && (
        <Chart
          title={metricWords(`${split}/reward`)}
          positions={curves.data.steps}
          unit="step"
          steps={curves.data.steps}
          lines={lines}
          wants="high"
          smoothing={0}
          isJoined
          group="evaluations"
        />
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <section class="table" tabIndex={0} aria-label="Evaluations by step">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col" class="number">
                Reward
              </th>
              <th scope="col" class="number">
                Prompts
              </th>
              <th scope="col" class="number">
                Answers
              </th>
              <th scope="col">Logged</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.step}>
                <th scope="row" class="name">
                  {row.step === 0 ? '0, the base model' : row.step}
                </th>
                <td class="number" data-label="Reward">
                  {formatNumber(row.reward)}
                </td>
                <td class="number" data-label="Prompts">
                  {formatCount(row.prompts)}
                </td>
                <td class="number" data-label="Answers">
                  {formatCount(row.answers)}
                </td>
                <td class="soft nowrap" data-label="Logged">
                  {formatAgo(row.at, at)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {props.hasMore && <p class="soft">Only the newest {formatCount(logs.length)} evaluations are shown.</p>}
      {a === undefined || b === undefined || steps.length < 2 ? (
        <Empty>One step was evaluated: with a second one, what got better or worse appears here.</Empty>
      ) : (
        <Changes key={split} model={model} split={split} steps={steps} a={a} b={b} />
      )}
    </>
  )
}

function Changes(props: {
  readonly model: Model
  readonly split: string
  readonly steps: readonly number[]
  readonly a: number
  readonly b: number
}): JSX.Element {
  const { model, split, steps, a, b } = props
  const outcome = OUTCOMES.find((each) => each === query.value.get('only')) ?? null
  const from = Math.max(0, Number(query.value.get('from') ?? 0) || 0)
  const path = `/v1/preview/models/${encodeURIComponent(model.id)}/log/compare?${new URLSearchParams({
    split,
    a: String(a),
    b: String(b),
    ...(outcome === null ? {} : { outcome }),
    limit: String(PAGE),
    offset: String(from),
  })}`
  const found = useLoad(a === b ? null : path, (signal) => ask<LogComparison>(path, { signal }), {
    topics: ['log'],
    modelId: model.id,
  })
  const choose = (name: string, title: string, value: number): JSX.Element => (
    <label>
      {title}{' '}
      <select
        aria-label={`${title} step`}
        value={value}
        onChange={(event) => setQuery({ [name]: event.currentTarget.value, from: null })}
      >
        {steps.map((step) => (
          <option key={step} value={step}>
            {step === 0 ? '0, the base model' : `step ${step}`}
          </option>
        ))}
      </select>
    </label>
  )
  return (
    <section class="stack" aria-labelledby="changes">
      <h2 id="changes">What changed</h2>
      <div class="row options">
        {choose('a', 'From', a)}
        {choose('b', 'To', b)}
      </div>
      {a === b ? (
        <Empty>Both are step {a}: choose another one.</Empty>
      ) : (
        <Block of={found} height="16rem">
          {(compared) =>
            compared.prompts === 0 ? (
              <Empty>No prompt of {split} was logged at both steps: log the same prompts each time.</Empty>
            ) : (
              <>
                <p class="verdict">{sayOf(compared)}</p>
                <Outcomes compared={compared} chosen={outcome} />
                {compared.skipped > 0 && (
                  <p class="warnings">{plural(compared.skipped, 'group')} not compared: too many, or too large.</p>
                )}
                <PairList pairs={compared.pairs} titles={[`step ${a}`, `step ${b}`]} />
                <p class="row">
                  {from > 0 && (
                    <button type="button" onClick={() => setQuery({ from: from > PAGE ? String(from - PAGE) : null })}>
                      Back
                    </button>
                  )}
                  {compared.has_more && (
                    <button type="button" onClick={() => setQuery({ from: String(from + PAGE) })}>
                      More
                    </button>
                  )}
                </p>
              </>
            )
          }
        </Block>
      )}
      <CopyAs
        cli={command`trainyard models evaluations ${model.name} --project ${model.project} --split ${split} --from ${a} --to ${b}`}
        path={path}
      />
    </section>
  )
}

function Outcomes(props: {
  readonly compared: LogComparison
  readonly chosen: (typeof OUTCOMES)[number] | null
}): JSX.Element {
  const { prompts, losses, wins, ties } = props.compared
  const choices = [
    [null, `all ${formatCount(prompts)}`],
    ['worse', `${formatCount(losses)} worse`],
    ['better', `${formatCount(wins)} better`],
    ['same', `${formatCount(ties)} the same`],
  ] as const
  return (
    <fieldset class="row outcomes">
      <legend class="visually-hidden">Show only</legend>
      {choices.map(([value, title]) => (
        <label key={title}>
          <input
            type="radio"
            name="outcome"
            checked={props.chosen === value}
            onChange={() => setQuery({ only: value, from: null })}
          />
          {title}
        </label>
      ))}
    </fieldset>
  )
}

/** Whether it is better, and how sure that is. */
function sayOf({ rewards, difference, interval, prompts, unpaired }: LogComparison): string {
  const isSure = interval !== null && (interval[0] > 0 || interval[1] < 0)
  const range = interval === null ? '' : `, 95% between ${formatNumber(interval[0])} and ${formatNumber(interval[1])}`
  const rest = unpaired === 0 ? '' : ` ${plural(unpaired, 'prompt')} of only one of them left out.`
  return `Reward ${formatNumber(rewards[0])} → ${formatNumber(rewards[1])} at ${plural(prompts, 'prompt')}; difference ${formatNumber(difference)}${range}${isSure ? '' : ': it may be chance'}.${rest}`
}
