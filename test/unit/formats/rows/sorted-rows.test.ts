/** What is said of rows that are sorted by their answers, and of rows that are not. */
import { expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { createSortedRows } from '#formats/rows/notes/sorted-rows.js'

function said(answers: readonly string[]): string[] {
  const rows = createSortedRows()
  for (const answer of answers) rows.add(answer)
  return rows.sentences()
}

const sorted = (counts: readonly number[]) => counts.flatMap((count, label) => Array(count).fill(`label ${label}`))

test('sorted labels are named, with what chance would give and what helps', () => {
  expect(said(sorted([50, 50]))).toEqual([
    '99% of the rows end like the row before them (49% would in random order): the rows are sorted, and what comes last is learned best; shuffle: true trains them in random order',
  ])
  expect(said(sorted([10, 30, 60]))).toHaveLength(1)
})

test.each<[string, string[]]>([
  ['few rows', sorted([9, 9])],
  ['one answer', sorted([100])],
  ['labels in turn', Array.from({ length: 100 }, (_, i) => `label ${i % 2}`)],
  ['answers of their own', Array.from({ length: 5000 }, (_, i) => `answer ${i}`)],
])('%s say nothing', (_, answers) => {
  expect(said(answers)).toEqual([])
})

test('labels in random order say nothing, however unequal they are', () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const rng = createRng(`order ${seed}`)
    const share = 0.5 + 0.4 * rng.uniform()
    expect(said(Array.from({ length: 60 }, () => (rng.uniform() < share ? 'yes' : 'no')))).toEqual([])
  }
})
