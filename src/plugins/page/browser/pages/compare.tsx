/**
 * `/ui/compare?m=…&m=…`: runs side by side: their curves over each other, what differs in how they were made, and the same
 * prompts evaluated under both.
 */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { List } from '#contract/wire/list.js'
import type { LogComparison } from '#contract/wire/log-comparison.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, query, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { differencesOf, joinLines, joinPositions, type Run } from '../data/compare.js'
import { defaultKeys, nameOf } from '../data/curves.js'
import { formatNumber, plural } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { modelPath } from '../data/match.js'
import { readCurves, readModel } from '../data/models.js'
import { evaluatedOf, verdictOf } from '../data/verdict.js'
import { Block, Empty } from '../parts/block.js'
import { Chart } from '../parts/chart.js'
import { ChartOptions, chartOptions } from '../parts/chart-options.js'
import { CopyAs } from '../parts/copy-as.js'
import { Title } from '../parts/layout.js'
import { Rest } from '../parts/rest.js'

const MOST = 6

interface Compared extends Run {
  readonly model: Model
  readonly job: TrainingJob | null
}

export function ComparePage(): JSX.Element {
  const names = [...new Set(query.value.getAll('m'))].slice(0, MOST)
  const runs = useLoad(
    names.length === 0 ? null : `runs ${names.join()}`,
    (signal) => Promise.all(names.map((name) => readRun(name, signal))),
    { topics: ['checkpoint', 'log'] },
  )
  const hidden = query.value.getAll('hide')
  return (
    <>
      <Title text="Runs side by side">
        <p class="actions">
          <a
            class="button"
            href={hrefOf(
              `/play?${names
                .slice(0, 4)
                .map((name) => `m=${encodeURIComponent(name)}`)
                .join('&')}`,
            )}
          >
            Chat side by side
          </a>
        </p>
      </Title>
      <Runs names={names} hidden={hidden} runs={runs.data ?? []} />
      {names.length === 0 ? (
        <Empty>Name two models here, or choose them in Models.</Empty>
      ) : (
        <Block of={runs} height="30rem">
          {(found) => <Sides runs={found.filter(({ name }) => !hidden.includes(name))} />}
        </Block>
      )}
      <CopyAs
        cli={command`trainyard models metrics ${names[0] ?? 'my-model'}`}
        path={`/v1/preview/models/${runs.data?.[0]?.model.id ?? '{model_id}'}/metrics`}
      />
    </>
  )
}

async function readRun(name: string, signal: AbortSignal): Promise<Compared> {
  const [project = '', short = ''] = name.split(/\/(.*)/s)
  const model = await readModel(project, short, signal)
  const [curves, jobs] = await Promise.all([
    readCurves(model.id, signal),
    ask<List<TrainingJob>>(`/v1/preview/training-jobs?model_id=${encodeURIComponent(model.id)}&limit=1`, { signal }),
  ])
  return { name, model, curves, job: jobs.data[0] ?? null }
}

/** Which runs there are, which of them are hidden, and one more. */
function Runs(props: {
  readonly names: readonly string[]
  readonly hidden: readonly string[]
  readonly runs: readonly Compared[]
}): JSX.Element {
  const { names, hidden, runs } = props
  const known = useLoad('models', (signal) =>
    ask<List<Model>>('/v1/preview/models?sort=-last_active&limit=100', { signal }),
  )
  const shown = names.filter((name) => !hidden.includes(name))
  return (
    <section class="card stack" aria-label="Runs">
      <ul class="plain runs">
        {names.map((name) => {
          const model = runs.find((run) => run.name === name)?.model
          const isHidden = hidden.includes(name)
          return (
            <li key={name} class="row">
              <label class="row">
                <input
                  type="checkbox"
                  checked={!isHidden}
                  onChange={() =>
                    setQuery({ hide: isHidden ? hidden.filter((other) => other !== name) : [...hidden, name] })
                  }
                />
                <span class={`swatch ${isHidden ? '' : `line-${shown.indexOf(name) % 6}`}`} aria-hidden="true" />
                <span class="visually-hidden">Show {name}</span>
              </label>
              {model === undefined ? name : <a href={hrefOf(modelPath(model))}>{name}</a>}
              {model !== undefined && (
                <span class="soft small">
                  {model.base_model} → step {model.step}
                </span>
              )}
              <button
                type="button"
                class="link"
                aria-label={`Take ${name} away`}
                onClick={() => setQuery({ m: names.filter((other) => other !== name) })}
              >
                ×
              </button>
            </li>
          )
        })}
      </ul>
      {names.length < MOST && (
        <label class="row">
          Add
          <input
            list="models-to-compare"
            placeholder="project/name"
            spellcheck={false}
            onChange={(event) => {
              const name = event.currentTarget.value.trim()
              if (name.includes('/')) setQuery({ m: [...names, name] })
              event.currentTarget.value = ''
            }}
          />
        </label>
      )}
      <datalist id="models-to-compare">
        {known.data?.data.map(({ id, project, name }) => (
          <option key={id} value={`${project}/${name}`} />
        ))}
      </datalist>
      <Rest of={known.data} elsewhere="write its name" />
    </section>
  )
}

function Sides({ runs }: { readonly runs: readonly Compared[] }): JSX.Element {
  const { axis, smoothing, isLogarithmic, chosen } = chartOptions()
  const all = [...new Set(runs.flatMap(({ curves }) => Object.keys(curves.series)))].sort()
  const first = [...new Set(runs.flatMap(({ curves }) => defaultKeys(curves)))]
  const keys = chosen.filter((key) => all.includes(key)).length > 0 ? chosen.filter((key) => all.includes(key)) : first
  const shape = `${axis} ${keys.join()} ${runs.map(({ name }) => name).join()}`
  const positions = useMemo(() => joinPositions(runs, axis), [shape, ...runs])
  const lines = useMemo(
    () => new Map(keys.map((key) => [key, joinLines(runs, key, axis, positions)])),
    [shape, ...runs],
  )
  return (
    <>
      {runs.length > 1 && <Paired runs={runs} />}
      <ChartOptions all={all} keys={keys} />
      <div class="charts">
        {keys.map((key) => {
          const { title, wants } = nameOf(key)
          return (
            <Chart
              key={key}
              title={title}
              positions={positions}
              unit={axis === 'time' ? 'seconds' : axis}
              steps={positions}
              lines={lines.get(key) ?? []}
              wants={wants}
              smoothing={smoothing}
              isLogarithmic={isLogarithmic}
              height={240}
              isJoined
              group="compare"
            />
          )
        })}
      </div>
      <Differences runs={runs} />
    </>
  )
}

/** The first two runs on the same prompts. */
function Paired({ runs }: { readonly runs: readonly Compared[] }): JSX.Element | null {
  const [one, two] = runs
  const [a, b] = [one, two].map((run) => (run === undefined ? null : newestOf(run)))
  const split = a?.split
  const path =
    one === undefined || two === undefined || a == null || b == null || split === undefined || b.split !== split
      ? null
      : `/v1/preview/models/${encodeURIComponent(one.model.id)}/log/compare?${new URLSearchParams({
          split,
          a: String(a.step),
          b: String(b.step),
          b_model_id: two.model.id,
          limit: '1',
        })}`
  const compared = useLoad(path, (signal) => ask<LogComparison>(path ?? '', { signal }), { topics: ['log'] })
  if (one === undefined || two === undefined) return null
  if (path === null) {
    return (
      <p class="soft">
        Evaluated on the same prompts, {one.name} and {two.name} are compared here with an interval.
      </p>
    )
  }
  return (
    <Block of={compared} height="2rem">
      {(found) => <p class="verdict">{sayOf(found, one.name, two.name)}</p>}
    </Block>
  )
}

/** The split that is judged, and its newest step; null: nothing was evaluated. */
function newestOf({ curves }: Run): { readonly split: string; readonly step: number } | null {
  const evaluated = evaluatedOf(curves)
  if (evaluated !== null) return { split: evaluated.split, step: evaluated.b }
  const split = curves.keys.find(
    ({ key, source, split: name }) => source === 'log' && name !== 'train' && key === `${name}/reward`,
  )?.split
  const index = split == null ? -1 : (curves.series[`${split}/reward`]?.findLastIndex((value) => value !== null) ?? -1)
  return split == null || index < 0 ? null : { split, step: curves.steps[index] ?? 0 }
}

function sayOf(compared: LogComparison, one: string, two: string): string {
  const { prompts, rewards, interval, split } = compared
  if (prompts === 0) return `${one} and ${two} were evaluated on no prompt in common.`
  const means = `${split} reward ${formatNumber(rewards[0])} of ${one}, ${formatNumber(rewards[1])} of ${two}, on the same ${plural(prompts, 'prompt')}`
  if (interval === null) return `${means}.`
  const { word } = verdictOf(compared, two)
  const better =
    word === 'Learns' ? `${two} is better` : interval[1] < 0 ? `${one} is better` : 'neither is better for sure'
  return `${means}: ${better}; the difference is ${formatNumber(interval[0])} to ${formatNumber(interval[1])} (95%).`
}

function Differences({ runs }: { readonly runs: readonly Compared[] }): JSX.Element {
  const isWhole = query.value.get('all') === '1'
  const rows = differencesOf(
    runs.map(({ job }) => job),
    isWhole,
  )
  return (
    <section class="stack" aria-labelledby="differences">
      <h2 id="differences">Options of the newest jobs</h2>
      <label class="row">
        <input
          type="checkbox"
          checked={isWhole}
          onChange={(event) => setQuery({ all: event.currentTarget.checked ? '1' : null })}
        />
        Also those that are the same
      </label>
      {rows.length === 0 ? (
        <Empty>Their options are the same.</Empty>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <section class="table" tabIndex={0} aria-label="Options by run">
          <table>
            <thead>
              <tr>
                <th scope="col">Option</th>
                {runs.map(({ name }) => (
                  <th scope="col" key={name}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ option, values }) => (
                <tr key={option}>
                  <th scope="row">
                    <code>{option}</code>
                  </th>
                  {values.map((value, i) => (
                    <td key={runs[i]?.name}>{textOf(value)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </section>
  )
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return 'not set'
  if (typeof value === 'number') return formatNumber(value)
  return typeof value === 'string' ? value : JSON.stringify(value)
}
