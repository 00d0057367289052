/**
 * A curve as text: a few rows of a terminal, values upwards, steps to the right. Pure.
 */
import { maxOf } from '#base/util/lists.js'

export interface ChartPoint {
  /** Position to the right: a whole number, ascending. */
  readonly step: number
  /** Within the range; anything else is drawn at the nearer edge. */
  readonly value: number
}

export interface ChartOptions {
  /** Columns of the terminal. */
  readonly width: number
  /** Rows of values; default 9, one for every eighth. */
  readonly rows?: number
  /** Whether symbols beyond ASCII can be shown. */
  readonly isUnicode: boolean
  /** Values of the lowest and the highest row; default 0 and 1. */
  readonly range?: readonly [number, number]
}

/** Most columns between two steps. */
const MAX_GAP = 4
/** Columns beside a value, left of the first step: indent, space, axis. */
const INDENT = 4

/**
 * Draws the curve; empty for no points.
 *
 * @returns lines without trailing spaces, the last one the numbers of the steps
 * @example
 *   1.00 ┤       ●
 *   0.50 ┤   ●
 *   0.00 ┼●─────────
 *         0   1   2
 */
export function renderChart(points: readonly ChartPoint[], options: ChartOptions): string {
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined) return ''
  const rows = options.rows ?? 9
  const marks = options.isUnicode ? { dot: '●', line: '·', axis: '┤', corner: '┼', floor: '─' } : ASCII
  const [low, high] = options.range ?? [0, 1]
  const range = high > low ? high - low : 1
  const labels = Array.from({ length: rows }, (_, row) => showValue(low + (range * row) / (rows - 1), range))
  const labelWidth = maxOf(labels.map((label) => label.length))
  const margin = labelWidth + INDENT
  const span = Math.max(1, last.step - first.step)
  const columns = Math.min(span * MAX_GAP, Math.max(1, options.width - margin - String(last.step).length - 1))
  const columnOf = (step: number): number => Math.round(((step - first.step) / span) * columns)
  const rowOf = (value: number): number => Math.round(Math.min(1, Math.max(0, (value - low) / range)) * (rows - 1))
  const grid = Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns + 2 }, () => (row === 0 ? marks.floor : ' ')),
  )
  const put = (column: number, value: number, mark: string): void => {
    const cells = grid[rowOf(value)]
    if (cells !== undefined) cells[column] = mark
  }
  for (let column = 0; column < columnOf(last.step); column += 1)
    put(column, valueAt(points, columnOf, column), marks.line)
  for (const { step, value } of points) put(columnOf(step), value, marks.dot)
  const lines = grid.map((cells, row) => {
    return `  ${(labels[row] ?? '').padStart(labelWidth)} ${row === 0 ? marks.corner : marks.axis}${cells.join('')}`.trimEnd()
  })
  return [...lines.toReversed(), stepLabels(points, columnOf, margin)].join('\n')
}

const ASCII = { dot: 'o', line: '.', axis: '|', corner: '+', floor: '-' } as const

/** As many decimals as tell rows apart, two at least. */
function showValue(value: number, range: number): string {
  return value.toFixed(Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(range)))))
}

/** The straight line between the points on both sides of a column. */
function valueAt(points: readonly ChartPoint[], columnOf: (step: number) => number, column: number): number {
  const right = points.find(({ step }) => columnOf(step) >= column) ?? points.at(-1)
  const left = points.findLast(({ step }) => columnOf(step) <= column) ?? points[0]
  if (left === undefined || right === undefined) return 0
  const [from, to] = [columnOf(left.step), columnOf(right.step)]
  return to === from ? left.value : left.value + ((right.value - left.value) * (column - from)) / (to - from)
}

/** The numbers of the steps under their points, as many as fit. */
function stepLabels(points: readonly ChartPoint[], columnOf: (step: number) => number, margin: number): string {
  let line = ''
  for (const { step } of points) {
    const at = margin + columnOf(step)
    if (at > line.length) line = line.padEnd(at) + String(step)
  }
  return line
}
