/**
 * A line over steps, drawn by uPlot: the raw values always, a smooth line over them when asked, one cursor over all charts of a page. For
 * those who do not see it a sentence stands in its place; the numbers are in the table that every page with charts has.
 */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { describeCurve, smooth } from '../data/curves.js'
import { formatNumber } from '../data/format.js'
import { colourOf, look } from './theme.js'

const LABEL_WIDTH = 7
const FONT = '12px system-ui, sans-serif'
/** Above so many points a point is no mark of its own. */
const MARKED_POINTS = 60

export interface ChartProps {
  readonly title: string
  /** Along the horizontal axis, ascending. */
  readonly positions: readonly number[]
  readonly isTime?: boolean
  /** What the numbers of the horizontal axis are: `step`. */
  readonly unit: string
  /** Of each position, for words. */
  readonly steps: readonly number[]
  readonly values: readonly (number | null)[]
  /** Half the height of a band around the values. */
  readonly spread?: readonly (number | null)[] | undefined
  readonly wants: 'high' | 'low' | null
  /** Weight of what was before, 0 to below 1. */
  readonly smoothing: number
  readonly isLogarithmic?: boolean
  readonly height?: number
  /** Charts of one name share their cursor. */
  readonly group: string
  readonly onPick?: (index: number) => void
}

export function Chart(props: ChartProps): JSX.Element {
  const holder = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(props)
  latest.current = props
  const [at, setAt] = useState<number | null>(null)
  const { height = 170, title, steps, values } = props
  const hasSpread = props.spread !== undefined
  const isSmooth = props.smoothing > 0
  const colours = look.value

  useEffect(() => {
    const element = holder.current
    if (element === null) return
    const made = new uPlot(
      optionsOf(latest.current, element.clientWidth, height, setAt),
      dataOf(latest.current),
      element,
    )
    plot.current = made
    const onClick = (): void => {
      const index = made.cursor.idx
      if (index != null && made.select.width === 0) latest.current.onPick?.(index)
    }
    made.over.addEventListener('click', onClick)
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [colours, height, hasSpread, isSmooth, props.isLogarithmic, props.isTime, props.group, props.unit])

  useEffect(() => {
    const made = plot.current
    if (made === null) return
    const zoom = zoomOf(made)
    made.batch(() => {
      made.setData(dataOf(latest.current))
      if (zoom !== null) made.setScale('x', zoom)
    })
  }, [props.positions, values, props.spread, props.smoothing])

  const shown = at === null ? null : (values[at] ?? null)
  const last = values.findLast((value) => value !== null) ?? null
  return (
    <figure class="card chart">
      <figcaption>
        <h3>{title}</h3>
        <span class="number">
          {at === null ? (
            formatNumber(last)
          ) : (
            <>
              <span class="soft">{props.unit === 'gradient step' ? '' : `step ${steps[at] ?? ''} `}</span>
              {formatNumber(shown)}
            </>
          )}
        </span>
      </figcaption>
      <div ref={holder} role="img" aria-label={describeCurve(title, steps, values, props.wants)} class="plot" />
    </figure>
  )
}

/** The part of the horizontal axis that somebody chose; null: all of it. */
function zoomOf({ scales, data }: uPlot): { readonly min: number; readonly max: number } | null {
  const { min, max } = scales['x'] ?? {}
  const [first, last] = [data[0][0], data[0].at(-1)]
  if (min == null || max == null || first === undefined || last === undefined) return null
  return min > first || max < last ? { min, max } : null
}

function dataOf(props: ChartProps): uPlot.AlignedData {
  const { positions, values, spread, smoothing } = props
  const lines: (number | null)[][] = [[...values]]
  if (smoothing > 0) lines.push(smooth(values, smoothing))
  if (spread !== undefined) {
    const side = (sign: number) =>
      values.map((value, i) => (value === null || spread[i] == null ? null : value + sign * (spread[i] ?? 0)))
    lines.push(side(1), side(-1))
  }
  return [[...positions], ...lines] as uPlot.AlignedData
}

function optionsOf(
  props: ChartProps,
  width: number,
  height: number,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const line = colourOf('--s1')
  const grid = { stroke: colourOf('--line'), width: 1 }
  const text = colourOf('--soft')
  const faint = `color-mix(in srgb, ${line} 40%, transparent)`
  const isSmooth = props.smoothing > 0
  const points = (show: boolean): uPlot.Series.Points => ({
    show: show && props.positions.length <= MARKED_POINTS,
    size: 5,
    fill: line,
    stroke: line,
  })
  const series: uPlot.Series[] = [
    {},
    { stroke: isSmooth ? faint : line, width: isSmooth ? 1 : 2, points: points(!isSmooth) },
    ...(isSmooth ? [{ stroke: line, width: 2, points: points(false) }] : []),
  ]
  const bands: uPlot.Band[] = []
  if (props.spread !== undefined) {
    const from = series.length
    const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false } }
    series.push(edge, edge)
    bands.push({ series: [from, from + 1], fill: `color-mix(in srgb, ${line} 14%, transparent)` })
  }
  const axis = { stroke: text, grid, ticks: { ...grid, size: 4 }, font: FONT }
  return {
    width,
    height,
    series,
    bands,
    legend: { show: false },
    cursor: {
      sync: { key: props.group },
      drag: { x: true, y: false },
      points: { size: 7, fill: line },
      y: false,
    },
    scales: { x: { time: props.isTime === true }, y: props.isLogarithmic === true ? { distr: 3 } : { range: rangeOf } },
    padding: [8, 8, 0, 0],
    axes: [
      {
        ...axis,
        space: 40,
        size: 26,
        gap: 4,
        ...(props.isTime === true
          ? {}
          : { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7, 1e8] }),
      },
      {
        ...axis,
        space: 26,
        values: (_, splits) => splits.map((value) => (value === null ? '' : formatNumber(value))),
        size: (_, labels) => (labels ?? []).reduce((most, { length }) => Math.max(most, length), 3) * LABEL_WIDTH + 12,
      },
    ],
    hooks: { setCursor: [(self) => onCursor(self.cursor.idx ?? null)] },
  }
}

/** A flat line lies in the middle; else there is a tenth of room above and below. */
function rangeOf(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1]
  if (min === 0 && max === 0) return [-0.05, 1]
  const room = min === max ? Math.abs(min) / 2 || 1 : (max - min) / 10
  return [min - room, max + room]
}
