/**
 * The one place that knows the output modes: human (terminal or pipe), `--json`, `--quiet`.
 *
 * stdout carries only what was asked for; status, hints, warnings and errors go to stderr. Commands hand over data and
 * columns and never format or test a mode themselves. Design after the `Output`
 * object of the `hf` command line.
 */

import { type Clock, systemClock } from '#base/util/clock.js'
import type { List } from '#contract/wire/list.js'
import type { ErrorReport } from './errors.js'
import type { Io } from './io.js'
import type { SpellCommands } from './program-name.js'
import { escapeJson, sanitizeForTerminal, sanitizeLine } from './sanitize.js'
import { type Column, renderFacts, renderPlainRows, renderTable, wrapWords } from './table.js'
import { createWordWrap } from './word-wrap.js'

export type OutputMode = 'human' | 'json' | 'quiet'

/** How a list goes on. */
export interface ListOptions {
  /** Printed as the last stderr line when there is more; `null` when the command cannot page. */
  readonly nextCommand?: string | null
  /** Said on stderr when the list is empty. */
  readonly empty?: string
  /** Ids in full on a terminal. Default false. */
  readonly isWide?: boolean
}

export interface Output {
  readonly mode: OutputMode
  /** Whether stdout is a terminal. */
  readonly isTerminal: boolean
  /** A page: a table, tab-separated rows, the envelope, or ids. */
  list<T extends { readonly id: string }>(page: List<T>, columns: readonly Column<T>[], options?: ListOptions): void
  /** Rows that are not an envelope of the API. */
  rows<T>(json: unknown, rows: readonly T[], columns: readonly Column<T>[], id: (row: T) => string): void
  /** One thing: facts for people, the object for `--json`, its id for `--quiet`. */
  record(json: unknown, id: string, facts: readonly (readonly [string, string])[]): void
  /** What a command did: a sentence, the object, or ids. */
  result(json: unknown, sentence: string, ids: readonly string[]): void
  /** One item of a stream: a JSON line, or the human line if there is one. */
  event(json: unknown, line: string | null): void
  /** Text asked for, as it comes: a model's answer. Filtered and broken between words on a terminal, where it must end with a line; raw elsewhere. */
  text(text: string): void
  /** Help, scripts, paths: printed in every mode as it is. */
  raw(text: string): void
  /** Progress talk on stderr; silent with `--quiet` and `--json`. */
  status(text: string): void
  warning(text: string): void
  /** The obvious next command; only on a terminal. */
  hint(text: string): void
  /** An error in the mode's form. */
  error(report: ErrorReport): void
}

/**
 * Creates the output of one run.
 *
 * @param spell of what is said on stderr, where hints are. What was asked for is printed as it is
 */
export function createOutput(
  io: Io,
  mode: OutputMode,
  { clock = systemClock, spell = (text) => text }: { readonly clock?: Clock; readonly spell?: SpellCommands } = {},
): Output {
  const { stdout, stderr } = io
  // a file that is looked at later is a terminal, too; only a model's own answer is kept as it is
  const safe = sanitizeForTerminal
  /** A sentence on a terminal, broken between words. */
  const wrapErr = (text: string, indent: number) =>
    stderr.isTerminal
      ? wrapWords(safe(spell(text)), stderr.width - indent).join(`\n${' '.repeat(indent)}`)
      : safe(spell(text))

  const writeWords = createWordWrap(stdout)
  /** Broken between words on a terminal, as it is in a pipe. */
  const wrapOut = (text: string) => (stdout.isTerminal ? wrapWords(safe(text), stdout.width).join('\n') : safe(text))
  /** A hint that is a command and nothing else stays whole, for copying. */
  const showHint = (text: string) =>
    stderr.chalk
      .dim(`hint: ${text.startsWith('trainyard ') ? safe(spell(text)) : wrapErr(text, 'hint: '.length)}`)
      .concat('\n')

  function printJson(value: unknown): void {
    stdout.write(`${escapeJson(JSON.stringify(value, null, stdout.isTerminal ? 2 : undefined))}\n`)
  }
  function printIds(ids: readonly string[]): void {
    for (const id of ids) stdout.write(`${sanitizeLine(id)}\n`)
  }
  function printRows<T>(rows: readonly T[], columns: readonly Column<T>[], isWide = false): void {
    if (rows.length === 0) return
    if (!stdout.isTerminal) {
      stdout.write(renderPlainRows(rows, columns))
      return
    }
    const table = renderTable(rows, columns, { sink: stdout, nowMs: clock.nowMs(), isWide })
    stdout.write(table.text)
    if (table.isCut) output.hint('columns were cut or left out to fit the terminal; --json shows everything')
  }

  const output: Output = {
    mode,
    isTerminal: stdout.isTerminal,
    list(page, columns, options = {}) {
      if (mode === 'json') return printJson(page)
      if (mode === 'quiet') return printIds(page.data.map((row) => row.id))
      printRows(page.data, columns, options.isWide)
      if (page.data.length === 0) output.status(options.empty ?? 'nothing found')
      if (page.has_more && options.nextCommand !== undefined && options.nextCommand !== null) {
        // whole, for copying
        stderr.write(`more: ${safe(spell(options.nextCommand))}\n`)
      }
    },
    rows(json, rows, columns, id) {
      if (mode === 'json') return printJson(json)
      if (mode === 'quiet') return printIds(rows.map(id))
      printRows(rows, columns)
    },
    record(json, id, facts) {
      if (mode === 'json') return printJson(json)
      if (mode === 'quiet') return printIds([id])
      if (stdout.isTerminal) return stdout.write(safe(renderFacts(facts, stdout.width)))
      stdout.write(facts.map(([label, value]) => `${label}\t${sanitizeLine(value)}\n`).join(''))
    },
    result(json, sentence, ids) {
      if (mode === 'json') return printJson(json)
      if (mode === 'quiet') return printIds(ids)
      stdout.write(`${wrapOut(sentence)}\n`)
    },
    event(json, line) {
      if (mode === 'json') stdout.write(`${escapeJson(JSON.stringify(json))}\n`)
      else if (mode === 'human' && line !== null) stdout.write(`${wrapOut(line)}\n`)
    },
    text: (text) => (stdout.isTerminal ? writeWords(safe(text)) : stdout.write(text)),
    raw: (text) => stdout.write(text),
    status(text) {
      if (mode === 'human') stderr.write(`${wrapErr(text, 0)}\n`)
    },
    warning(text) {
      if (mode !== 'quiet') stderr.write(`${stderr.chalk.yellow('warning:')} ${wrapErr(text, 'warning: '.length)}\n`)
    },
    hint(text) {
      if (mode === 'human' && stderr.isTerminal) stderr.write(showHint(text))
    },
    error(report) {
      if (mode === 'json') return stderr.write(`${escapeJson(JSON.stringify(spellHint(report, spell)))}\n`)
      if (report.lines !== undefined) {
        for (const line of report.lines) stderr.write(`${wrapErr(line, 0)}\n`)
        return
      }
      stderr.write(`${stderr.chalk.red('error:')} ${wrapErr(report.message, 'error: '.length)}\n`)
      if (report.suggestion !== undefined) stderr.write(`  Did you mean "${safe(report.suggestion)}"?\n`)
      if (report.hint !== undefined && mode !== 'quiet') stderr.write(showHint(report.hint))
    },
  }
  return output
}

/** The hint is for who reads it, also as JSON. */
function spellHint({ json, hint }: ErrorReport, spell: SpellCommands): ErrorReport['json'] {
  return hint === undefined ? json : { error: { ...json.error, hint: spell(hint) } }
}
