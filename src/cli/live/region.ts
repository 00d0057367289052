/**
 * A few lines at the bottom of a terminal that are drawn again and again, below what scrolls by.
 *
 * The cursor rests at the end of the last line, which has no line break: what is printed above goes through `above`. Lines are cut to
 * the width, so none wraps; when the window was made narrower since, terminals that wrap old lines anew are counted with.
 */
import type { Sink } from '../terminal/io.js'
import { displayWidth } from '../terminal/table.js'

export interface Region {
  /** Draws these lines instead of the ones before. */
  draw(lines: readonly string[]): void
  /** Lets `print` write above the lines. */
  above(print: () => void): void
  /** Erases the lines; the cursor is where they began. */
  clear(): void
}

const ERASE_BELOW = '\u001b[J'

export function createRegion(sink: Sink): Region {
  let drawn: readonly string[] = []

  function erase(): string {
    if (drawn.length === 0) return ''
    const rows = drawn.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(line) / sink.width)), 0)
    return `\r${rows > 1 ? `\u001b[${rows - 1}A` : ''}${ERASE_BELOW}`
  }

  function draw(lines: readonly string[]): void {
    const cut = lines.map((line) => cutToWidth(line, sink.width - 1))
    sink.write(erase() + cut.join('\n'))
    drawn = cut
  }

  function clear(): void {
    sink.write(erase())
    drawn = []
  }

  return {
    draw,
    clear,
    above(print) {
      const lines = drawn
      clear()
      print()
      if (lines.length > 0) draw(lines)
    },
  }
}

function cutToWidth(line: string, width: number): string {
  if (displayWidth(line) <= width) return line
  let text = ''
  for (const character of line) {
    if (displayWidth(text + character) > width) break
    text += character
  }
  return text
}
