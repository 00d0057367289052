/**
 * Models as rows: what each is after, columns that were chosen, groups, those that are hidden, and what is done with several.
 */

import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import type { ListedModel, MetricSummary } from '#contract/wire/models.js'
import { go, hrefOf, query, setQuery } from '../data/address.js'
import { nowMs } from '../data/clock.js'
import { formatAgo, formatBytes, formatCount, formatNumber, plural } from '../data/format.js'
import { modelPath } from '../data/match.js'
import {
  differingOptions,
  groupModels,
  MOST_OPTIONS,
  type ModelGroup,
  metricsOf,
  optionText,
} from '../data/model-columns.js'
import { metricWords } from '../data/words.js'
import { Sparkline } from './sparkline.js'
import { useSteadyRows } from './steady.js'

/** What training is after, and the same on data that it does not see: a reward where there is one, else a loss. */
const TRAINED = ['train/reward', 'loss/train']
const isHeldOut = (name: string): boolean => !TRAINED.includes(name)

function metricOf(
  { summary }: ListedModel,
  isShown: (name: string) => boolean,
): readonly [name: string, metric: MetricSummary] | null {
  const found = Object.entries(summary?.metrics ?? {}).filter(([name]) => isShown(name))
  return found.find(([name]) => name.endsWith('reward')) ?? found[0] ?? null
}

function Metric({ of: found }: { readonly of: ReturnType<typeof metricOf> }): JSX.Element {
  if (found === null) return <span class="soft">–</span>
  const [name, metric] = found
  return (
    <span class="spark">
      <Sparkline name={metricWords(name)} summary={metric} />
      {!name.endsWith('reward') && <small class="soft">loss</small>}
    </span>
  )
}

interface Listed {
  readonly rows: readonly ListedModel[]
  readonly hasOptions: boolean
}

/** Options that are columns, of the rows that are not hidden. */
function shownOf({ rows, hasOptions }: Listed): readonly [shown: readonly ListedModel[], options: readonly string[]] {
  const hidden = query.value.getAll('hide')
  const shown = rows.filter(({ id }) => !hidden.includes(id))
  return [shown, hasOptions ? differingOptions(shown).slice(0, MOST_OPTIONS) : []]
}

/** What the list shows beside the usual is in the address. */
export function ModelRows(listed: Listed): JSX.Element {
  const [shown, options] = shownOf(listed)
  return <Rows groups={groupModels(shown, query.value.get('by'))} options={options} metrics={columns()} />
}

/** By what rows stand together, and which columns they have. */
export function RowOptions(listed: Listed): JSX.Element {
  const { rows, hasOptions } = listed
  const [, options] = shownOf(listed)
  const hidden = query.value.getAll('hide')
  const metrics = metricsOf(rows)
  const by = query.value.get('by')
  return (
    <>
      <label>
        Group by
        <select value={by ?? ''} onChange={(event) => setQuery({ by: event.currentTarget.value || null })}>
          <option value="">nothing</option>
          <option value="base">base model</option>
          <option value="tag">tag</option>
          {options.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <details class="picker">
        <summary>Columns</summary>
        <fieldset class="menu">
          <legend class="visually-hidden">Columns</legend>
          <label>
            <input
              type="checkbox"
              checked={hasOptions}
              onChange={(event) => setQuery({ options: event.currentTarget.checked ? '1' : null, by: null })}
            />
            <span>Options that differ</span>
          </label>
          {metrics.map((name) => (
            <label key={name}>
              <input type="checkbox" checked={columns().includes(name)} onChange={() => toggleColumn(name)} />
              <span title={name}>{metricWords(name)}</span>
            </label>
          ))}
        </fieldset>
      </details>
      {hidden.length > 0 && (
        <button type="button" class="link" onClick={() => setQuery({ hide: null })}>
          Show {formatCount(hidden.length)} hidden
        </button>
      )}
    </>
  )
}

/** Metrics that are columns of their own. */
function columns(): readonly string[] {
  return query.value.getAll('c')
}

function toggleColumn(name: string): void {
  const known = columns()
  setQuery({ c: known.includes(name) ? known.filter((other) => other !== name) : [...known, name] })
}

interface MoreColumns {
  readonly options: readonly string[]
  readonly metrics: readonly string[]
}

function Rows(props: MoreColumns & { readonly groups: readonly ModelGroup[] }): JSX.Element {
  const { groups, options, metrics } = props
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const box = useRef<HTMLDivElement>(null)
  useSteadyRows(box)
  const toggle = (name: string): void => {
    const next = new Set(chosen)
    if (!next.delete(name)) next.add(name)
    setChosen(next)
  }
  const all = new Map(groups.flatMap(({ models }) => models.map((model) => [model.id, model])))
  const shown = [...all.values()].filter(({ id }) => chosen.has(id))
  const width = 9 + options.length + metrics.length
  return (
    <>
      <div class="table" ref={box}>
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">Choose</span>
              </th>
              <th scope="col">Name</th>
              <th scope="col">Project</th>
              <th scope="col">Base model</th>
              <th scope="col" class="number">
                Step
              </th>
              <th scope="col">Training</th>
              <th scope="col">Held out</th>
              {metrics.map((name) => (
                <th scope="col" class="number" key={name} title={name}>
                  {metricWords(name)}
                </th>
              ))}
              {options.map((name) => (
                <th scope="col" class="number" key={name}>
                  <code>{name}</code>
                </th>
              ))}
              <th scope="col">Last active</th>
              <th scope="col" class="number">
                Size
              </th>
            </tr>
          </thead>
          {groups.map(({ name, models }) => (
            <tbody key={name}>
              {name !== null && (
                <tr class="group-of-rows">
                  <th scope="rowgroup" colSpan={width}>
                    {name} <span class="soft">{plural(models.length, 'model')}</span>
                  </th>
                </tr>
              )}
              {models.map((model) => (
                <Row
                  key={model.id}
                  {...{ model, options, metrics }}
                  isChosen={chosen.has(model.id)}
                  other={shown.length === 1 && !chosen.has(model.id) ? (shown[0] ?? null) : null}
                  onChoose={() => toggle(model.id)}
                />
              ))}
            </tbody>
          ))}
        </table>
      </div>
      {shown.length > 0 && <Chosen models={shown} />}
    </>
  )
}

function Row(
  props: MoreColumns & {
    readonly model: ListedModel
    readonly isChosen: boolean
    /** The one that is chosen, where it can be compared with this one. */
    readonly other: ListedModel | null
    readonly onChoose: () => void
  },
): JSX.Element {
  const { model, options, metrics, other } = props
  const { description = '', tags = [], warnings = [] } = model.summary ?? {}
  return (
    <tr>
      <td class="choice">
        <input type="checkbox" aria-label={`Choose ${model.name}`} checked={props.isChosen} onChange={props.onChoose} />
      </td>
      <th scope="row" class="name">
        <a href={hrefOf(modelPath(model))} title={model.name}>
          {model.name}
        </a>
        {other !== null && (
          <a class="small versus" href={hrefOf(comparePath([other, model]))} title={`Compare with ${other.name}`}>
            compare
            <span class="visually-hidden">
              {' '}
              {model.name} with {other.name}
            </span>
          </a>
        )}
        {tags.map((tag) => (
          <span key={tag} class="tag">
            {tag}
          </span>
        ))}
        {description !== '' && (
          <small class="soft described" title={description}>
            {description}
          </small>
        )}
      </th>
      <td data-label="Project">{model.project}</td>
      <td data-label="Base model">{model.base_model}</td>
      <td data-label="Step" class="number">
        {formatCount(model.step)}
      </td>
      <td data-label="Training">
        <Metric of={metricOf(model, (name) => !isHeldOut(name))} />
      </td>
      <td data-label="Held out">
        <Metric of={metricOf(model, isHeldOut)} />
      </td>
      {metrics.map((name) => (
        <td key={name} data-label={name} class="number">
          {formatNumber(model.summary?.metrics[name]?.last)}
        </td>
      ))}
      {options.map((name) => (
        <td key={name} data-label={name} class="number">
          {optionText(model, name)}
        </td>
      ))}
      <td data-label="Last active" class="nowrap">
        {formatAgo(model.summary?.last_active_at ?? model.created_at, nowMs())}
        {warnings.length > 0 && (
          <span class="warns" title={warnings.join('\n')}>
            {' '}
            ⚠ <span class="visually-hidden">{plural(warnings.length, 'warning')}</span>
          </span>
        )}
      </td>
      <td data-label="Size" class="number">
        {formatBytes(model.summary?.size_bytes)}
      </td>
    </tr>
  )
}

function comparePath(models: readonly ListedModel[]): string {
  return `/compare?${models.map(({ project, name }) => `m=${encodeURIComponent(`${project}/${name}`)}`).join('&')}`
}

/** What can be done with several. */
function Chosen({ models }: { readonly models: readonly ListedModel[] }): JSX.Element {
  return (
    <p class="row chosen">
      {formatCount(models.length)} chosen
      <button
        type="button"
        class="primary"
        disabled={models.length < 2 || models.length > 6}
        title={models.length < 2 ? 'choose two' : models.length > 6 ? 'at most six beside each other' : undefined}
        onClick={() => go(comparePath(models))}
      >
        Compare
      </button>
      <button
        type="button"
        disabled={models.length > 4}
        title={models.length > 4 ? 'at most four beside each other' : undefined}
        onClick={() =>
          go(`/play?${models.map(({ project, name }) => `m=${encodeURIComponent(`${project}/${name}`)}`).join('&')}`)
        }
      >
        Chat side by side
      </button>
      <button
        type="button"
        onClick={() => setQuery({ hide: [...query.peek().getAll('hide'), ...models.map(({ id }) => id)] })}
      >
        Hide
      </button>
    </p>
  )
}
