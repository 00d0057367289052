/** A table of 100 MB through `trainyard init FILE`: read as it comes, and as many rows are drawn as are trained on in minutes. */
import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterAll, expect, test } from 'vitest'
import { cli, createHome } from '../support/service/cli-process.js'

const home = createHome()
afterAll(() => home.remove())
const [PARTS, ROWS_OF_PART] = [50, 26_000]
const COLOURS = ['red', 'green', 'blue', 'black']

function* rows(): Generator<string> {
  yield 'text,label\n'
  for (let part = 0; part < PARTS; part += 1) {
    yield Array.from(
      { length: ROWS_OF_PART },
      (_, n) => `"A sentence, which is ""quoted"", of a long table of texts: ${n}",${COLOURS[n % 4]}\n`,
    ).join('')
  }
}

test('of 100 MB as many rows are drawn as are trained on', async () => {
  const file = join(home.path, 'large.csv')
  await pipeline(Readable.from(rows()), createWriteStream(file))
  const folder = join(home.path, 'large')
  const { exitCode, stderr } = await cli(['init', file, folder, '--base-model', 'trainyard/spark'], { home: home.path })
  expect([exitCode, stderr]).toEqual([0, expect.stringContaining(`${PARTS * ROWS_OF_PART} texts with 4 labels`)])
  expect(stderr).toContain('of which 5000 are drawn (--rows says how many)')
  expect((await readFile(join(folder, 'train.jsonl'), 'utf8')).trim().split('\n')).toHaveLength(4000)
}, 600_000)
