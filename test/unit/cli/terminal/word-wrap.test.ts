/** Answers on a terminal, as they come in pieces. */
import { expect, test } from 'vitest'
import type { Sink } from '#cli/terminal/io.js'
import { displayWidth } from '#cli/terminal/table.js'
import { createWordWrap } from '#cli/terminal/word-wrap.js'

/** What stands on the terminal after these pieces. */
function written(pieces: readonly string[], width: number): string {
  let text = ''
  const write = createWordWrap({ width, write: (piece) => (text += piece) } as Pick<Sink, 'width' | 'write'> as Sink)
  for (const piece of pieces) write(piece)
  return text
}
/** What the terminal makes of it: it breaks what is longer than a line. */
function lines(text: string, width: number): readonly string[] {
  return text.split('\n').flatMap((line) => line.match(new RegExp(`.{1,${width}}`, 'gu')) ?? [''])
}

const SENTENCE = 'The quick brown fox jumps over the lazy dog, again and again, until it is tired.'

test('no word is broken and none is lost, however the text is cut into pieces', () => {
  for (let width = 21; width <= 90; width += 1) {
    for (const size of [1, 2, 3, 7, 1000]) {
      const pieces = SENTENCE.match(new RegExp(`.{1,${size}}`, 'g')) ?? []
      const text = written([...pieces, '\n'], width)
      expect(text.trimEnd().split(/\s+/)).toEqual(SENTENCE.split(' '))
      for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(width)
    }
  }
})
test('a word is written once it is known to end in the line, not at the end of the answer', () => {
  expect(written(['one two thr'], 40)).toBe('one two')
  expect(written(['one two thr', 'ee '], 40)).toBe('one two three')
})
test('lines, blank lines, indentation and double blanks stay', () => {
  const code = 'if x:\n    return  1\n\n\tend\n'
  expect(written([code], 40)).toBe(code)
})
test('a line that is exactly full is followed by the next word in the next line, without a blank before it', () => {
  expect(written(['aaaa bbbbb cccc dddd eeee ffff\n'], 20)).toBe('aaaa bbbbb cccc dddd\neeee ffff\n')
})
test('a word longer than a line is written as it comes, and what follows stands after it', () => {
  const long = 'x'.repeat(50)
  expect(written(['see ', long.slice(0, 30)], 20)).toBe(`see\n${long.slice(0, 30)}`)
  const text = written(['see ', long, ' and this here\n'], 20)
  expect(lines(text, 20)).toEqual(['see', 'x'.repeat(20), 'x'.repeat(20), `${'x'.repeat(10)} and this`, 'here', ''])
})
test('signs of two columns are broken anywhere, and counted twice', () => {
  const text = written(['日本語の文章は空白なしで続く。\n'], 21)
  expect(text.replaceAll('\n', '')).toBe('日本語の文章は空白なしで続く。')
  for (const line of text.split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(21)
})
