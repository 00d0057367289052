/**
 * `/ui/models/:project/:name`: one model, its curves, jobs and checkpoints: does it learn?
 */

import type { JSX } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { List } from '#contract/wire/list.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, query, route, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { boundariesOf, type Curves, defaultKeys, nameOf, pathOfPoint, positionsOf } from '../data/curves.js'
import { formatAgo, formatNumber, plural } from '../data/format.js'
import { takeProgress } from '../data/job-progress.js'
import { live } from '../data/live.js'
import { useLoad } from '../data/load.js'
import { Block, Empty } from '../parts/block.js'
import { Chart } from '../parts/chart.js'
import { ChartOptions, chartOptions } from '../parts/chart-options.js'
import { CopyAs } from '../parts/copy-as.js'
import { Findings } from '../parts/findings.js'
import { JobLine } from '../parts/job-line.js'
import { ModelHeader, useCurves, useModel } from '../parts/model-header.js'
import { useSteadyRows } from '../parts/steady.js'
import { StepAnswers } from '../parts/step-answers.js'

const IDLE_MS = 20_000
/** When a job ends is told by its record alone. */
const RECORD_MS = 10_000
const ROWS = 50
/** A cursor that goes on has not come. */
const PAUSE_MS = 150

export function ModelPage(): JSX.Element {
  const { project = '', name = '' } = route.value.params
  const model = useModel(project, name)
  return (
    <>
      <ModelHeader project={project} name={name} tab="Curves" />
      <Block of={model} height="24rem">
        {(found) => <Learning key={found.id} model={found} />}
      </Block>
    </>
  )
}

function Learning({ model }: { readonly model: Model }): JSX.Element {
  const everyMs = live.value === true ? null : IDLE_MS
  const [isBusy, setIsBusy] = useState(false)
  const jobs = useLoad(
    `jobs of ${model.id}`,
    (signal) =>
      ask<List<TrainingJob>>(`/v1/preview/training-jobs?model_id=${encodeURIComponent(model.id)}&limit=20`, { signal }),
    { topics: ['job'], modelId: model.id, take: takeProgress, everyMs: isBusy ? RECORD_MS : everyMs },
  )
  const curves = useCurves(model.id, everyMs)
  // findings stand above the curves: what comes later must not move them
  const hasJobs = jobs.data !== null || jobs.error !== null
  const active = jobs.data?.data.filter(({ status }) => status === 'running' || status === 'queued') ?? []
  const isActive = active.length > 0
  useEffect(() => setIsBusy(isActive), [isActive])
  return (
    <>
      {/* always there: a loop is between two jobs again and again, and what is below must not move with each */}
      <section class="running-now" aria-label="Running">
        <ul class="plain">
          {active.length === 0 && <li class="job-line soft">Nothing runs now.</li>}
          {active.map((job) => (
            <JobLine key={job.id} job={job} model={model} />
          ))}
        </ul>
      </section>
      <Block of={hasJobs ? curves : { ...curves, data: null }} height="24rem">
        {(known) =>
          known.steps.length === 0 ? (
            <Empty command={command`trainyard train rl ${model.name} --help`}>
              No step yet: train it, and its curves appear here.
            </Empty>
          ) : (
            <>
              <Findings jobs={jobs.data?.data ?? []} model={model} />
              <Charts modelId={model.id} curves={known} />
            </>
          )
        }
      </Block>
      <CopyAs
        cli={command`trainyard models metrics ${model.name} --project ${model.project}`}
        path={`/v1/preview/models/${model.id}/metrics`}
      />
    </>
  )
}

function Charts({ modelId, curves }: { readonly modelId: string; readonly curves: Curves }): JSX.Element {
  const { axis, smoothing, isLogarithmic, chosen: asked } = chartOptions()
  const chosen = asked.filter((key) => curves.series[key] !== undefined)
  const keys = chosen.length > 0 ? chosen : defaultKeys(curves)
  const positions = useMemo(() => positionsOf(curves, axis), [curves, axis])
  const boundaries = useMemo(() => boundariesOf(curves), [curves])
  // between two measurements there is no gap
  const measured = useMemo(
    () => new Set(curves.keys.flatMap(({ key, source }) => (source === 'log' ? [key] : []))),
    [curves],
  )
  const lines = useMemo(
    () =>
      new Map(
        keys.map((key) => [
          key,
          [{ name: nameOf(key).title, values: curves.series[key] ?? [], spread: curves.series[`${key}_std_dev`] }],
        ]),
      ),
    [curves, keys.join()],
  )
  const { index, point, keep } = useStep(curves)
  return (
    <>
      <ChartOptions all={Object.keys(curves.series).sort()} keys={keys} />
      <div class="beside">
        <div class="charts">
          {keys.map((key) => {
            const { title, wants } = nameOf(key)
            return (
              <Chart
                key={key}
                title={title}
                positions={positions}
                isTime={axis === 'time'}
                unit={axis}
                steps={curves.steps}
                lines={lines.get(key) ?? []}
                wants={wants}
                isJoined={measured.has(key)}
                smoothing={smoothing}
                isLogarithmic={isLogarithmic}
                boundaries={boundaries}
                group="model"
                onPoint={point}
                onPick={(at) => keep(curves.steps[at] ?? 0)}
              />
            )
          })}
        </div>
        <StepAnswers modelId={modelId} curves={curves} index={index} onStep={keep} />
      </div>
      <Steps curves={curves} keys={keys} />
    </>
  )
}

interface ChosenStep {
  /** Place of the step that is read. */
  readonly index: number
  /** The cursor is there; null: it left. */
  readonly point: (index: number | null) => void
  /** This step stays, in the address. */
  readonly keep: (step: number) => void
}

/** The step under the cursor, else that of the address, else the newest as the page opened: a reader is left where they are. */
function useStep(curves: Curves): ChosenStep {
  const [first] = useState(curves.steps.at(-1) ?? 0)
  const [pointed, setPointed] = useState<number | null>(null)
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const kept = query.value.get('at')
  const wanted = pointed ?? (kept !== null && /^\d{1,9}$/.test(kept) ? Number(kept) : first)
  const steps = useRef(curves.steps)
  steps.current = curves.steps
  return {
    // thinning may have left it out: the nearest before it
    index: Math.max(
      0,
      curves.steps.findLastIndex((step) => step <= wanted),
    ),
    point: (index) => {
      clearTimeout(timer.current)
      timer.current = setTimeout(() => setPointed(index === null ? null : (steps.current[index] ?? null)), PAUSE_MS)
    },
    keep: (step) => {
      clearTimeout(timer.current)
      setPointed(null)
      setQuery({ at: String(step) })
    },
  }
}

/** The numbers of the charts, the newest step first. */
function Steps({ curves, keys }: { readonly curves: Curves; readonly keys: readonly string[] }): JSX.Element {
  const [asked, setCount] = useState(ROWS)
  // what comes takes no row away that is read
  const [begun] = useState(curves.steps.length)
  const count = asked + Math.max(0, curves.steps.length - begun)
  const box = useRef<HTMLElement>(null)
  useSteadyRows(box)
  const at = nowMs()
  const order = curves.steps.map((_, i) => curves.steps.length - 1 - i).slice(0, count)
  return (
    <section aria-labelledby="steps" class="stack">
      <h2 id="steps">Steps</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <section class="table" ref={box} tabIndex={0} aria-label="The numbers of the charts">
        <table>
          <thead>
            <tr>
              <th scope="col">Step</th>
              {keys.map((key) => (
                <th scope="col" class="number" key={key}>
                  {nameOf(key).title}
                </th>
              ))}
              <th scope="col">Made</th>
            </tr>
          </thead>
          <tbody>
            {order.map((i) => {
              const step = curves.steps[i] ?? 0
              const path = pathOfPoint(curves, i)
              return (
                <tr key={step}>
                  <th scope="row">{path === null ? step : <a href={hrefOf(path)}>{step}</a>}</th>
                  {keys.map((key) => (
                    <td class="number" key={key}>
                      {formatNumber(curves.series[key]?.[i])}
                    </td>
                  ))}
                  <td class="soft nowrap">{formatAgo(curves.times[i], at)}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </section>
      {curves.steps.length > count && (
        <p>
          <button type="button" onClick={() => setCount(asked + 4 * ROWS)}>
            {plural(curves.steps.length - count, 'step')} more
          </button>
        </p>
      )}
    </section>
  )
}
