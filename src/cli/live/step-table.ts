/**
 * The gradient steps of a job that is followed, a row each: what its kind measures, and the loss of validation rows where it has
 * any. Does not know how rows reach the terminal.
 */
import type { JsonObject } from '#base/util/json.js'
import { formatClock, formatNumber } from '../terminal/format.js'

/** How far the job is. */
export interface StepProgress {
  readonly count: number
  /** Gradient steps of the whole job; null where it has not said. */
  readonly total: number | null
  /** Since the job began to train. */
  readonly elapsedMs: number
}

export interface StepTable {
  readonly header: string
  row(data: JsonObject, progress: StepProgress): string
}

interface Column {
  readonly header: string
  readonly width: number
  show(data: JsonObject, progress: StepProgress): string
}

const shown = (header: string, width: number, names: readonly string[]): Column => ({
  header,
  width,
  show: (data) => {
    const value = names.map((name) => data[name]).find((each) => typeof each === 'number')
    return typeof value === 'number' ? formatNumber(value) : '-'
  },
})

const stepOf = (planned: unknown): Column => ({
  header: 'step',
  width: Math.max(9, 2 * String(planned ?? '').length + 3),
  show: (_, { count, total }) => (total === null ? String(count) : `${count}/${total}`),
})
const LOSS = shown('loss', 11, ['loss', 'policy_loss'])
const NORM = shown('grad norm', 12, ['grad_norm'])
const ENTROPY = shown('entropy', 10, ['entropy'])
const MARGIN = shown('margin', 10, ['rewards/margins'])
const ACCURACY = shown('accuracy', 10, ['rewards/accuracies'])
const VALIDATION = shown('val loss', 10, ['val/loss'])
const SPEED: Column = {
  header: 'tokens/s',
  width: 11,
  show: ({ tokens_per_second: rate }) => (typeof rate === 'number' ? Math.round(rate).toLocaleString('en-US') : '-'),
}
const TIME: Column = { header: 'time', width: 4, show: (_, { elapsedMs }) => formatClock(elapsedMs) }

const INDENT = 2
/** What goes first where a terminal is narrow. */
const LEAST_NEEDED: readonly Column[] = [SPEED, NORM]

/**
 * @param first data of the job's first event that is seen: its start, or a gradient step when it is followed from later on
 * @param width columns of the terminal; null where rows go elsewhere
 */
export function createStepTable(first: JsonObject, width: number | null): StepTable {
  const isMeasured = ['num_validation_trajectories', 'num_validation_pairs', 'val/loss'].some((name) => name in first)
  const all = [
    stepOf(first['num_sequences']),
    LOSS,
    NORM,
    // nobody measures the entropy of preferences
    ...('num_pairs' in first ? [MARGIN, ACCURACY] : [ENTROPY]),
    ...(isMeasured ? [VALIDATION] : []),
    SPEED,
    TIME,
  ]
  const columns = fitting(all, width ?? Number.POSITIVE_INFINITY)
  const line = (cells: readonly string[]): string =>
    `${' '.repeat(INDENT)}${cells.map((cell, i) => cell.padEnd(columns[i]?.width ?? 0)).join('')}`.trimEnd()
  return {
    header: line(columns.map(({ header }) => header)),
    row: (data, progress) => line(columns.map(({ show }) => show(data, progress))),
  }
}

function fitting(columns: readonly Column[], width: number): readonly Column[] {
  const taken = INDENT + columns.reduce((sum, column) => sum + column.width, 0)
  const least = LEAST_NEEDED.find((column) => columns.includes(column))
  if (taken <= width || least === undefined) return columns
  return fitting(
    columns.filter((column) => column !== least),
    width,
  )
}
