/**
 * Lists as text: aligned columns with an upper-case header on a terminal, tab-separated values in a pipe.
 *
 * Widths are those of a terminal: wide characters take two columns. Only columns marked `canShrink` are ever cut, and the last one,
 * marked `canWrap`, is broken between words; where that is not enough, columns with a `rank` are left out.
 */
import { maxOf } from '#base/util/lists.js'
import { formatBytes, formatClock, formatCount, formatNumber, formatRelativeTime } from './format.js'
import type { Sink } from './io.js'
import { sanitizeLine } from './sanitize.js'

/** An `id` is shown on a terminal only when asked for; a `shortId` there by its last eight digits, which differ. */
export type ColumnKind =
  | 'text'
  | 'name'
  | 'id'
  | 'shortId'
  | 'status'
  | 'number'
  | 'time'
  | 'bytes'
  | 'count'
  | 'duration'

/** One column: where its value comes from and how it reads. */
export interface Column<T> {
  readonly header: string
  readonly kind?: ColumnKind
  /** A time is an ISO text, a duration milliseconds, a size bytes. null or undefined: nothing known. */
  readonly get: (row: T) => string | number | null | undefined
  /** May be cut to fit the terminal. */
  readonly canShrink?: boolean
  /** Goes on in lines below instead of being cut. The last column only. */
  readonly canWrap?: boolean
  /** Left out where the window is too narrow for all even when cut, the highest first. Default never. */
  readonly rank?: number
}

/** Tab-separated rows: no header, full values, ISO times, plain numbers; an unknown value is empty. */
export function renderPlainRows<T>(rows: readonly T[], columns: readonly Column<T>[]): string {
  return rows
    .map((row) => `${columns.map((column) => sanitizeLine(String(column.get(row) ?? ''))).join('\t')}\n`)
    .join('')
}

export interface TableOptions {
  readonly sink: Sink
  readonly nowMs: number
  /** Ids in full. Default false. */
  readonly isWide?: boolean
}

/**
 * Aligned rows for a terminal.
 *
 * @returns the text and whether anything was cut or left out to fit the width
 */
export function renderTable<T>(
  rows: readonly T[],
  all: readonly Column<T>[],
  options: TableOptions,
): { readonly text: string; readonly isCut: boolean } {
  const shown = options.isWide === true ? all : all.filter((column) => column.kind !== 'id')
  return layOut(rows, shown, options)
}

function layOut<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  options: TableOptions,
): { readonly text: string; readonly isCut: boolean } {
  const cells = rows.map((row) => columns.map((column) => showCell(column.kind ?? 'text', column.get(row), options)))
  const natural = columns.map((column, i) =>
    maxOf(
      cells.map((row) => displayWidth(row[i] ?? '')),
      column.header.length,
    ),
  )
  const isTight = natural.reduce((sum, width) => sum + width + GAP, -GAP) > options.sink.width
  const gap = isTight ? TIGHT_GAP : GAP
  const widths = fitWidths(natural, columns, gap, options.sink.width)
  const least = leastColumn(columns)
  if (least !== undefined && widths.reduce((sum, width) => sum + width + gap, -gap) > options.sink.width) {
    const fewer = columns.filter((column) => column !== least)
    return { ...layOut(rows, fewer, options), isCut: true }
  }
  const { chalk } = options.sink
  const between = ' '.repeat(gap)
  type PaintCell = (text: string, column: number) => string
  const cellOf = (text: string, i: number, paintCell: PaintCell): string => {
    const cut = cutCell(text, widths[i] ?? 0)
    const padding = ' '.repeat(Math.max(0, (widths[i] ?? 0) - displayWidth(cut)))
    return RIGHT.has(columns[i]?.kind ?? 'text') ? padding + paintCell(cut, i) : paintCell(cut, i) + padding
  }
  const lineOf = (texts: readonly string[], paintCell: PaintCell) =>
    texts
      .map((text, i) => cellOf(text, i, paintCell))
      .join(between)
      .trimEnd()
  const header = lineOf(
    columns.map((column) => column.header.toUpperCase()),
    (text) => chalk.dim(text),
  )
  const paintValue: PaintCell = (text, i) => paint(chalk, columns[i]?.kind ?? 'text', text)
  const last = columns.length - 1
  const isWrapped = columns[last]?.canWrap === true
  const indent = ' '.repeat(widths.slice(0, last).reduce((sum, width) => sum + width + gap, 0))
  const body = cells.map((row) => {
    if (!isWrapped) return lineOf(row, paintValue)
    const head = row.slice(0, last).map((value, i) => cellOf(value, i, paintValue) + between)
    return head.join('') + wrapWords(row[last] ?? '', widths[last] ?? 0).join(`\n${indent}`)
  })
  const text = `${[header, ...body].join('\n')}\n`
  return { text, isCut: widths.some((width, i) => width < (natural[i] ?? 0) && !(isWrapped && i === last)) }
}

/** Two-column facts: `Name         email-agent`; long values go on below their beginning. */
export function renderFacts(facts: readonly (readonly [string, string])[], columns = Number.POSITIVE_INFINITY): string {
  const width =
    maxOf(
      facts.map(([label]) => label.length),
      0,
    ) + 3
  return facts
    .map(
      ([label, value]) => `${label.padEnd(width)}${wrapWords(value, columns - width).join(`\n${' '.repeat(width)}`)}\n`,
    )
    .join('')
}

/**
 * Lines of at most `columns`, broken between words; a longer word has a line of its own. What goes on stands below the text it
 * belongs to: below its indentation, or below the second column of `name   what it means`.
 */
export function wrapWords(text: string, columns: number): readonly string[] {
  return text.split('\n').flatMap((line) => {
    if (displayWidth(line) <= columns) return [line]
    const head = /^ *(?:\S+(?: \S+)*? {2,}(?=\S))?/.exec(line)?.[0] ?? ''
    const isRoomy = displayWidth(head) <= columns / 2
    const indent = isRoomy ? head : ''
    const room = columns - displayWidth(indent)
    const lines: string[] = []
    let current = ''
    for (const word of line.slice(indent.length).split(' ')) {
      if (current !== '' && displayWidth(current) + 1 + displayWidth(word) > room) {
        lines.push(current)
        current = word
      } else {
        current = current === '' ? word : `${current} ${word}`
      }
    }
    const hanging = ' '.repeat(displayWidth(indent))
    return [...lines, current].map((each, i) => (i === 0 ? indent : hanging) + each)
  })
}

/** The end of an id: ids made within a minute begin alike. */
export function shortId(id: string): string {
  return id.slice(-8)
}

/** Colour of a status word; the word itself carries the meaning. */
export function paintStatus(chalk: Sink['chalk'], status: string): string {
  if (['completed', 'ended', 'ready', 'PASS', 'ok'].includes(status)) return chalk.green(status)
  if (['failed', 'FAIL', 'error'].includes(status)) return chalk.red(status)
  if (['running', 'queued', 'downloading', 'interrupted', 'WARN'].includes(status)) return chalk.yellow(status)
  return chalk.dim(status)
}

const GAP = 3
/** Where the window is too narrow for all. */
const TIGHT_GAP = 2
/** Columns are not cut below this; the one that tells rows apart is, and is typed, so it keeps more. */
const LEAST_WIDTH = 8
const LEAST_NAME = 16
const RIGHT: ReadonlySet<ColumnKind> = new Set<ColumnKind>(['number', 'bytes', 'count'])
/** The text, or as much of it as fits with a sign that there was more. */
function cutCell(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  let kept = ''
  for (const character of text) {
    if (displayWidth(kept) + displayWidth(character) > width - 1) break
    kept += character
  }
  return `${kept}…`
}

/** Whatever a value turns out to be, it is one line without commands to the terminal: servers send dates that are none. */
function showCell(kind: ColumnKind, value: string | number | null | undefined, options: TableOptions): string {
  return sanitizeLine(formatCell(kind, value, options))
}

function formatCell(kind: ColumnKind, value: string | number | null | undefined, options: TableOptions): string {
  if (value === null || value === undefined || value === '') return options.sink.isUnicode ? '–' : '-'
  if (kind === 'time') return formatRelativeTime(String(value), options.nowMs)
  if (kind === 'bytes') return formatBytes(Number(value))
  if (kind === 'count') return formatCount(Number(value))
  if (kind === 'shortId' && options.isWide !== true) return shortId(String(value))
  if (kind === 'duration') return formatClock(Number(value))
  if (typeof value === 'number') return formatNumber(value)
  return value
}

function paint(chalk: Sink['chalk'], kind: ColumnKind, text: string): string {
  if (kind === 'name') return chalk.bold(text)
  if (kind === 'status') return paintStatus(chalk, text)
  return text
}

/** The column to do without first, if there is one. */
function leastColumn<T>(columns: readonly Column<T>[]): Column<T> | undefined {
  const ranked = columns.filter((column) => column.rank !== undefined)
  return ranked.sort((a, b) => (b.rank ?? 0) - (a.rank ?? 0))[0]
}

/** Takes from the widest shrinkable column first, as long as what is left says anything. */
function fitWidths<T>(natural: readonly number[], columns: readonly Column<T>[], gap: number, total: number): number[] {
  const widths = [...natural]
  let excess = widths.reduce((sum, width) => sum + width + gap, -gap) - total
  while (excess > 0) {
    let widest = -1
    for (let i = 0; i < widths.length; i += 1) {
      const least = columns[i]?.kind === 'name' ? LEAST_NAME : LEAST_WIDTH
      const isCandidate = (columns[i]?.canShrink ?? columns[i]?.canWrap) === true && (widths[i] ?? 0) > least
      if (isCandidate && (widest < 0 || (widths[i] ?? 0) > (widths[widest] ?? 0))) widest = i
    }
    if (widest < 0) return widths
    widths[widest] = (widths[widest] ?? 0) - 1
    excess -= 1
  }
  return widths
}

/** Terminal columns of a text without control characters: wide East Asian and emoji characters take two. */
export function displayWidth(text: string): number {
  let width = 0
  for (const character of text) {
    if (/^\p{M}|\u200d|\ufe0f$/u.test(character)) continue
    const isWide =
      /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Extended_Pictographic}$/u.test(
        character,
      )
    width += isWide ? 2 : 1
  }
  return width
}
