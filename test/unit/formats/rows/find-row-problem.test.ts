/** Of a large file the beginning is looked at, up to the end of a line. */
import { expect, test } from 'vitest'
import { findRowProblem } from '#formats/rows/examples/find-row-problem.js'

const good = '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n'
const opened = (text: string, size: number) => async () =>
  (async function* () {
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  })()

test.each([1, 7, 64, 10_000])('in pieces of %i bytes', async (size) => {
  const open = opened(`${good}${good}not json\n`, size)
  for (const maxBytes of [1, good.length, 2 * good.length - 1]) expect(await findRowProblem(open, maxBytes)).toBeNull()
  expect(await findRowProblem(open, 2 * good.length + 1)).toMatchObject({ code: 'invalid_json', details: { line: 3 } })
})
