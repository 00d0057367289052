/**
 * One spinner line on stderr while something runs; nothing at all when stderr is not a terminal.
 *
 * The line is cut to the terminal's width, so that it never wraps and one carriage return always clears it.
 */
import type { Io, Sink } from './io.js'
import { sanitizeLine } from './sanitize.js'

export interface Progress {
  /** Replaces the text; drawn at the next frame, ten a second. */
  update(text: string): void
  /** Clears the line. Safe to call twice. */
  stop(): void
}

const FRAME_MS = 100
const CLEAR_LINE = '\r\u001b[K'

/** Starts a spinner. `isEnabled` is false for `--json` and `--quiet`. */
export function startProgress(io: Io, isEnabled: boolean, text: string): Progress {
  const sink = io.stderr
  if (!isEnabled || !sink.isTerminal) return { update: () => undefined, stop: () => undefined }
  let current = text
  let frame = 0
  let isStopped = false
  const timer = setInterval(draw, FRAME_MS)
  draw()

  function draw(): void {
    sink.write(CLEAR_LINE + renderFrame(sink, frame, current))
    frame += 1
  }
  return {
    update: (next) => {
      current = next
    },
    stop: () => {
      if (isStopped) return
      isStopped = true
      clearInterval(timer)
      sink.write(CLEAR_LINE)
    },
  }
}

function renderFrame(sink: Sink, frame: number, text: string): string {
  const marks = sink.isUnicode ? '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏' : '|/-\\'
  return `${sink.chalk.cyan(marks[frame % marks.length])} ${sanitizeLine(text).slice(0, sink.width - 3)}`
}
