/** The spinner line: one line, never wider than the terminal, gone at the end, silent elsewhere. */
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { createIo } from '../../../../src/cli/terminal/io.js'
import { startProgress } from '../../../../src/cli/terminal/progress.js'

function ioOf(isTTY: boolean) {
  const written: string[] = []
  const sink = { isTTY, columns: 30, write: (text: string) => written.push(text) }
  return { io: createIo({ stdin: Readable.from([]), stdout: sink, stderr: sink }, false), written }
}

test('a terminal gets one line that is cut to its width and cleared at the end', () => {
  const { io, written } = ioOf(true)
  const progress = startProgress(io, true, `uploading a file with\n\u001b[2J a very long name`)
  progress.stop()
  progress.stop()
  expect(written).toEqual(['\r\u001b[K⠋ uploading a file with [2J a', '\r\u001b[K'])
})

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
