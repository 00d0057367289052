/** The spinner is silent where no terminal is, or where it is not wanted. */
import { Readable } from 'node:stream'
import { afterEach, expect, test, vi } from 'vitest'
import { createIo } from '../../../../src/cli/terminal/io.js'
import { startProgress, startProgressLater } from '../../../../src/cli/terminal/progress.js'

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

function ioOf(isTTY: boolean) {
  const written: string[] = []
  const sink = { isTTY, columns: 30, write: (text: string) => written.push(text) }
  return { io: createIo({ stdin: Readable.from([]), stdout: sink, stderr: sink }, false, {}), written }
}

test('nothing is written without a terminal or when it is not wanted', () => {
  for (const [isTTY, isEnabled] of [
    [false, true],
    [true, false],
  ] as const) {
    const { io, written } = ioOf(isTTY)
    const progress = startProgress(io, isEnabled, 'x')
    progress.update('y')
    progress.stop()
    expect(written).toEqual([])
  }
})

test.each([
  [0, 0],
  [80, 1],
])('a terminal of %i columns gets %i spinners', (columns, count) => {
  // without a width a second drawing would never end
  vi.useFakeTimers()
  const { isTTY, columns: width, cursorTo, clearLine, moveCursor } = process.stderr
  const moves = { cursorTo: () => true, clearLine: () => true, moveCursor: () => true }
  let drawn = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    drawn += String(text)
    return true
  })
  Object.assign(process.stderr, { isTTY: true, columns, ...moves })
  try {
    startProgress(ioOf(true).io, true, 'working')
    expect(drawn.split('working').length - 1).toBe(count)
  } finally {
    Object.assign(process.stderr, { isTTY, columns: width, cursorTo, clearLine, moveCursor })
  }
})

test('a wait is shown after a second, with the latest words, and not at all when it was shorter', () => {
  vi.useFakeTimers()
  let drawn = ''
  const { isTTY, columns, cursorTo, clearLine, moveCursor } = process.stderr
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    drawn += String(text)
    return true
  })
  const moves = { cursorTo: () => true, clearLine: () => true, moveCursor: () => true }
  Object.assign(process.stderr, { isTTY: true, columns: 80, ...moves })
  try {
    const short = startProgressLater(ioOf(true).io, true, 'short')
    vi.advanceTimersByTime(900)
    short.stop()
    const long = startProgressLater(ioOf(true).io, true, 'first')
    vi.advanceTimersByTime(900)
    long.update('second')
    vi.advanceTimersByTime(200)
    expect(drawn).toContain('second')
    long.stop()
    vi.advanceTimersByTime(5000)
    expect(drawn).not.toMatch(/short|first/)
  } finally {
    Object.assign(process.stderr, { isTTY, columns, cursorTo, clearLine, moveCursor })
  }
})
