/**
 * What uPlot is told of a chart: lines, bands, axes, the base model's value, the mark of each line's best step.
 */
import type uPlot from 'uplot'
import { bestOf, smooth } from '../data/curves.js'
import { formatTicks } from '../data/format.js'
import { colourOf } from './theme.js'

const LABEL_WIDTH = 7
const FONT = '12px system-ui, sans-serif'
/** Above so many points a point is no mark of its own. */
const MARKED_POINTS = 60
const BEST_RADIUS = 5
/** Colours that many eyes tell apart, and where they are used up dashes. */
const COLOURS = ['--s1', '--s2', '--s3']
const DASHES = [[], [6, 4]]

/** Step 0 of a loop is the model as it was, which need not be the base model. */
export const LOOP_STEP = 'step of the loop'

export interface ChartLine {
  readonly name: string
  readonly values: readonly (number | null)[]
  /** Half the height of a band around the values. */
  readonly spread?: readonly (number | null)[] | undefined
}

export interface ChartProps {
  readonly title: string
  /** Along the horizontal axis, ascending. */
  readonly positions: readonly number[]
  readonly isTime?: boolean
  /** What the numbers of the horizontal axis are: `step`. */
  readonly unit: string
  /** Of each position, for words. */
  readonly steps: readonly number[]
  /** The same array while nothing changed. */
  readonly lines: readonly ChartLine[]
  readonly wants: 'high' | 'low' | null
  /** Weight of what was before, 0 to below 1. */
  readonly smoothing: number
  readonly isLogarithmic?: boolean
  /** A log scale is what it begins with; readers may want the other. */
  readonly beginsLogarithmic?: boolean
  /** Places in `positions` at which another run begins. */
  readonly boundaries?: readonly number[]
  readonly height?: number
  /** Whether lines have points at positions of their own: between two of them there is no gap. */
  readonly isJoined?: boolean
  /** Charts of one name share their cursor. */
  readonly group: string
  /** Where the cursor stands; null: nowhere. */
  readonly onPoint?: (index: number | null) => void
  readonly onPick?: (index: number) => void
}

interface Frame {
  readonly isLogarithmic: boolean
  readonly width: number
  readonly height: number
  readonly onCursor: (index: number | null) => void
  /** @param range null: all of it */
  readonly onZoom: (range: readonly [number, number] | null) => void
}

export function dataOf({ positions, lines, smoothing }: ChartProps): uPlot.AlignedData {
  const columns = lines.flatMap(({ values, spread }) => {
    const side = (sign: number): (number | null)[] =>
      values.map((value, i) => (value === null || spread?.[i] == null ? null : value + sign * (spread[i] ?? 0)))
    return [
      [...values],
      ...(smoothing > 0 ? [smooth(values, smoothing)] : []),
      ...(spread === undefined ? [] : [side(1), side(-1)]),
    ]
  })
  return [[...positions], ...columns] as uPlot.AlignedData
}

export function optionsOf(latest: () => ChartProps, frame: Frame): uPlot.Options {
  const props = latest()
  const { isLogarithmic, width, height, onCursor, onZoom } = frame
  const grid = { stroke: colourOf('--line'), width: 1 }
  const series: uPlot.Series[] = [{}]
  const bands: uPlot.Band[] = []
  for (const [i, { spread }] of props.lines.entries()) {
    const line = colourOf(COLOURS[i % COLOURS.length] ?? '--s1')
    const faint = `color-mix(in srgb, ${line} 40%, transparent)`
    const dash = DASHES[Math.floor(i / COLOURS.length) % DASHES.length] ?? []
    const isSmooth = props.smoothing > 0
    const points = (show: boolean): uPlot.Series.Points => ({
      show: show && props.positions.length <= MARKED_POINTS,
      size: 5,
      fill: line,
      stroke: line,
    })
    const spanGaps = props.isJoined === true
    series.push({ spanGaps, stroke: isSmooth ? faint : line, width: isSmooth ? 1 : 2, dash, points: points(!isSmooth) })
    if (isSmooth) series.push({ spanGaps, stroke: line, width: 2, dash, points: points(false) })
    if (spread === undefined) continue
    const from = series.length
    const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false } }
    series.push(edge, edge)
    bands.push({ series: [from, from + 1], fill: `color-mix(in srgb, ${line} 14%, transparent)` })
  }
  const axis = { stroke: colourOf('--soft'), grid, ticks: { ...grid, size: 4 }, font: FONT }
  const best = colourOf('--good')
  return {
    width,
    height,
    series,
    bands,
    legend: { show: false },
    cursor: { sync: { key: props.group }, drag: { x: true, y: false }, points: { size: 7 }, y: false },
    scales: { x: { time: props.isTime === true }, y: isLogarithmic ? { distr: 3 } : { range: rangeOf } },
    // the last label is as wide as it is
    padding: [8, 22, 0, 0],
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
        values: (_, splits) => [...formatTicks(splits)],
        size: (_, labels) => (labels ?? []).reduce((most, { length }) => Math.max(most, length), 3) * LABEL_WIDTH + 16,
      },
    ],
    hooks: {
      setCursor: [(self) => onCursor(self.cursor.idx ?? null)],
      setSelect: [
        (self) => {
          if (self.select.width < 2) return
          const { left, width: wide } = self.select
          onZoom([self.posToVal(left, 'x'), self.posToVal(left + wide, 'x')])
        },
      ],
      ready: [(self) => self.over.addEventListener('dblclick', () => onZoom(null))],
      draw: [
        (self) => drawBase(self, latest(), axis.stroke),
        (self) => drawBoundaries(self, latest(), axis.stroke),
        (self) => {
          for (const { values } of latest().lines) markBest(self, latest(), { values, colour: best })
        },
      ],
    },
  }
}

/** A dashed line at the value of step 0, where the base model was measured: what a run is to rise above. */
function drawBase(plot: uPlot, { lines, steps, positions, unit }: ChartProps, colour: string): void {
  if (unit === 'gradient step' || unit === LOOP_STEP || steps[0] !== 0 || positions.length < 2) return
  const { min, max } = plot.scales['y'] ?? {}
  for (const value of new Set(lines.map(({ values }) => values[0]))) {
    if (value == null || value < (min ?? value) || value > (max ?? value)) continue
    const { ctx, bbox } = plot
    const y = plot.valToPos(value, 'y', true)
    ctx.save()
    ctx.strokeStyle = colour
    ctx.fillStyle = colour
    ctx.lineWidth = devicePixelRatio
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio])
    ctx.beginPath()
    ctx.moveTo(bbox.left, y)
    ctx.lineTo(bbox.left + bbox.width, y)
    ctx.stroke()
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`
    ctx.textAlign = 'right'
    ctx.fillText('base model', bbox.left + bbox.width - 4 * devicePixelRatio, y - 4 * devicePixelRatio)
    ctx.restore()
  }
}

/** A dotted line where another run begins. */
function drawBoundaries(plot: uPlot, { boundaries = [], positions }: ChartProps, colour: string): void {
  const { min, max } = plot.scales['x'] ?? {}
  const { ctx, bbox } = plot
  for (const index of boundaries) {
    // between the step that was there and the first of the new run
    const at = ((positions[index - 1] ?? 0) + (positions[index] ?? 0)) / 2
    if (at < (min ?? at) || at > (max ?? at)) continue
    const x = plot.valToPos(at, 'x', true)
    ctx.save()
    ctx.strokeStyle = colour
    ctx.lineWidth = devicePixelRatio
    ctx.setLineDash([devicePixelRatio, 3 * devicePixelRatio])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    ctx.restore()
  }
}

/** A ring around the best value of a line. */
function markBest(
  plot: uPlot,
  { wants, positions }: ChartProps,
  { values, colour }: { readonly values: ChartLine['values']; readonly colour: string },
): void {
  const index = wants === null ? null : bestOf(values, wants)
  const value = index === null ? null : (values[index] ?? null)
  if (index === null || value === null || positions.length < 2) return
  const { min = 0, max = 0 } = plot.scales['x'] ?? {}
  const at = positions[index] ?? 0
  if (at < (min ?? at) || at > (max ?? at)) return
  const { ctx } = plot
  ctx.save()
  ctx.strokeStyle = colour
  ctx.lineWidth = 2 * devicePixelRatio
  ctx.beginPath()
  ctx.arc(plot.valToPos(at, 'x', true), plot.valToPos(value, 'y', true), BEST_RADIUS * devicePixelRatio, 0, 2 * Math.PI)
  ctx.stroke()
  ctx.restore()
}

/** A flat line lies in the middle; else there is a tenth of room above and below. */
function rangeOf(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1]
  if (min === 0 && max === 0) return [-0.05, 1]
  const room = min === max ? Math.abs(min) / 2 || 1 : (max - min) / 10
  return [min - room, max + room]
}
