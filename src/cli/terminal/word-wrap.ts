/**
 * Text as it comes, broken between words at the edge of the terminal. A word is held back until it is known whether it ends in
 * this line; one that is longer than a line is broken by the terminal.
 */
import type { Sink } from './io.js'
import { displayWidth } from './table.js'

const TAB = 8

/** Creates a writer; it starts at the beginning of a line. */
export function createWordWrap(sink: Sink): (text: string) => void {
  /** Columns that are taken in this line. */
  let column = 0
  /** Blanks that were read, and the word after them; neither is written yet. */
  let gap = ''
  let word = ''
  /** Whether what comes goes on a word that fills its line and is written already. */
  let isInLongWord = false

  function place(): string {
    const placed = gap + word
    const end = widthAfter(placed, column)
    // a full line is not a new one yet
    column = end <= sink.width ? end : ((end - 1) % sink.width) + 1
    gap = ''
    word = ''
    return placed
  }

  function take(character: string): string {
    if (character === '\n') {
      const line = `${place()}\n`
      column = 0
      isInLongWord = false
      return line
    }
    if (character === ' ' || character === '\t') {
      const before = word === '' ? '' : place()
      gap += character
      isInLongWord = false
      return before
    }
    // scripts without blanks may be broken before and after each sign
    const isWide = displayWidth(character) === 2
    let out = isWide && word !== '' ? place() : ''
    word += character
    const isTooLong = widthAfter(gap + word, column) > sink.width
    if (isTooLong && column > 0 && !isInLongWord) {
      out += '\n'
      column = 0
      gap = ''
    } else if (isTooLong) {
      isInLongWord = true
    }
    return isWide || isInLongWord ? out + place() : out
  }

  return (text) => {
    let out = ''
    for (const character of text) out += take(character)
    if (out !== '') sink.write(out)
  }
}

function widthAfter(text: string, column: number): number {
  let width = column
  for (const character of text) width += character === '\t' ? TAB - (width % TAB) : displayWidth(character)
  return width
}
