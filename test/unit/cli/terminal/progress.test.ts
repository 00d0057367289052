/** The spinner is silent where no terminal is, or where it is not wanted. */
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { createIo } from '../../../../src/cli/terminal/io.js'
import { startProgress } from '../../../../src/cli/terminal/progress.js'

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
