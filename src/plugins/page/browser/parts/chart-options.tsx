/**
 * How charts of a page are drawn: over what, how smooth, which numbers. All of it is in the address.
 */

import type { JSX } from 'preact'
import { query, setQuery } from '../data/address.js'
import type { Axis } from '../data/curves.js'
import { metricWords } from '../data/words.js'

interface Chosen {
  readonly axis: Axis
  readonly smoothing: number
  readonly isLogarithmic: boolean
  /** Names of metrics; none: those of the page. */
  readonly chosen: readonly string[]
}

/** What the address says. */
export function chartOptions(): Chosen {
  return {
    axis: (['step', 'time', 'tokens'] as const).find((name) => name === query.value.get('x')) ?? 'step',
    smoothing: Math.min(0.95, Math.max(0, Number(query.value.get('smooth') ?? 0) || 0)),
    isLogarithmic: query.value.get('log') === '1',
    chosen: query.value.getAll('k'),
  }
}

export function ChartOptions(props: {
  readonly all: readonly string[]
  readonly keys: readonly string[]
}): JSX.Element {
  const { axis, smoothing, isLogarithmic } = chartOptions()
  const toggle = (key: string): void => {
    const next = props.keys.includes(key) ? props.keys.filter((name) => name !== key) : [...props.keys, key]
    setQuery({ k: next })
  }
  return (
    <div class="row options">
      <label>
        Over{' '}
        <select value={axis} onChange={(event) => setQuery({ x: event.currentTarget.value })}>
          <option value="step">steps</option>
          <option value="time">time</option>
          <option value="tokens">tokens</option>
        </select>
      </label>
      <label>
        Smoothing{' '}
        <input
          type="range"
          min="0"
          max="0.95"
          step="0.05"
          value={smoothing}
          onInput={(event) =>
            setQuery({ smooth: event.currentTarget.value === '0' ? null : event.currentTarget.value })
          }
        />
        <output class="number">{smoothing.toFixed(2)}</output>
      </label>
      <label>
        <input
          type="checkbox"
          checked={isLogarithmic}
          onChange={(event) => setQuery({ log: event.currentTarget.checked ? '1' : null })}
        />
        Log scale
      </label>
      <details class="picker">
        <summary>Metrics</summary>
        <fieldset class="menu">
          <legend class="visually-hidden">Metrics</legend>
          {props.all.map((key) => (
            <label key={key}>
              <input type="checkbox" checked={props.keys.includes(key)} onChange={() => toggle(key)} />
              <span title={key}>{metricWords(key)}</span>
            </label>
          ))}
          <button type="button" onClick={() => setQuery({ k: null })}>
            As at first
          </button>
        </fieldset>
      </details>
    </div>
  )
}
