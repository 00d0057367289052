/**
 * One spinner line on stderr while something runs; nothing at all when stderr is not a terminal. `ora` draws it.
 *
 * The text is cut to the terminal's width, so that the line never wraps. Ctrl-C stays with the program: ora would otherwise
 * take standard input for itself.
 */
import ora from 'ora'
import type { Io } from './io.js'
import { sanitizeLine } from './sanitize.js'

export interface Progress {
  /** Replaces the text. */
  update(text: string): void
  /** Clears the line. Safe to call twice. */
  stop(): void
}

/** Starts a spinner. `isEnabled` is false for `--json` and `--quiet`. */
export function startProgress(io: Io, isEnabled: boolean, text: string): Progress {
  const sink = io.stderr
  if (!isEnabled || !sink.isTerminal) return { update: () => undefined, stop: () => undefined }
  const cut = (line: string) => sanitizeLine(line).slice(0, Math.max(10, sink.width - 4))
  const spinner = ora({
    text: cut(text),
    // Streams that only say they are terminals cannot move a cursor. Some terminals have no width, as a container's or a recorder's
    // begins: ora divides by it and would clear infinitely many lines, for ever.
    isSilent: process.stderr.isTTY !== true || process.stderr.columns === 0,
    color: sink.chalk.level === 0 ? false : 'cyan',
    spinner: sink.isUnicode ? 'dots' : 'line',
    discardStdin: false,
    hideCursor: true,
  }).start()
  return {
    update: (next) => {
      spinner.text = cut(next)
    },
    stop: () => {
      spinner.stop()
    },
  }
}

/** Nothing for the first second, then a spinner: what usually takes no time says what it waits for when it does. */
export function startProgressLater(io: Io, isEnabled: boolean, text: string): Progress {
  let shown = text
  let spinner: Progress | null = null
  const timer = setTimeout(() => {
    spinner = startProgress(io, isEnabled, shown)
  }, 1000)
  return {
    update: (next) => {
      shown = next
      spinner?.update(next)
    },
    stop: () => {
      clearTimeout(timer)
      spinner?.stop()
    },
  }
}
