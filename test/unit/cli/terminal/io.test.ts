/** What decides whether a terminal gets colours. */
import { Readable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { createIo } from '../../../../src/cli/terminal/io.js'

// what chalk finds a terminal able to do, wherever this runs
vi.mock('chalk', async (original) => ({
  ...(await original<typeof import('chalk')>()),
  supportsColor: { level: 2, hasBasic: true, has256: true, has16m: false },
}))

const levelOf = (color: boolean | null, environment: Record<string, string>, isTTY = true): number => {
  const stream = { isTTY, write: () => undefined }
  return createIo({ stdin: Readable.from([]), stdout: stream, stderr: stream }, color, environment).stdout.chalk.level
}

test.each([
  ['a terminal', null, {}, 2],
  ['NO_COLOR', null, { NO_COLOR: '1' }, 0],
  ['NO_COLOR that is empty', null, { NO_COLOR: '' }, 2],
  ['NO_COLOR and FORCE_COLOR', null, { NO_COLOR: '1', FORCE_COLOR: '2' }, 2],
  ['--no-color', false, { FORCE_COLOR: '2' }, 0],
  ['the setting color, set to true, and NO_COLOR', true, { NO_COLOR: '1' }, 2],
] as const)('%s', (_, color, environment, level) => {
  expect(levelOf(color, environment)).toBe(level)
})

test('a pipe gets none', () => {
  expect(levelOf(true, { FORCE_COLOR: '2' }, false)).toBe(0)
})
