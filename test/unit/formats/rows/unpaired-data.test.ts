/** Labelled answers: which answer stands as a mismatched one behind whose prompt. */
import { expect, it } from 'vitest'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples } from '#formats/rows/examples/sft-example.js'
import { countUnpairedExamples, readUnpairedExamples } from '#formats/rows/examples/unpaired-example.js'
import type { PreferenceText } from '#formats/rows/preference-data.js'
import { readUnpairedBatches } from '#formats/rows/unpaired-data.js'

/** Characters are tokens; those of the chosen turns train. */
const text: PreferenceText = {
  isReasoningRead: true,
  renderWithMask: ({ messages }, turns) => {
    const letters = messages.map(({ content }) => [...String(content)])
    const trains = (m: number): boolean => Array.isArray(turns) && turns.includes(m)
    return {
      tokenIds: letters.flat().map((letter) => letter.codePointAt(0) ?? 0),
      mask: letters.flatMap((list, m) => list.map(() => (trains(m) ? 1 : 0))),
      leftOut: [],
    }
  },
}

/** Prompt and answer of each mismatched one, as a text. */
async function mismatchedOf(rows: readonly (readonly [string, string])[], batchSize = 8) {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    const lines = rows.map(([prompt, completion], i) => JSON.stringify({ prompt, completion, label: i % 2 === 0 }))
    yield Buffer.from(lines.join('\n'))
  }
  const all: (string | null)[] = []
  for await (const { answers } of readUnpairedBatches(bytes(), { text, batchSize, maxLength: 8 })) {
    for (const { mismatched } of answers) all.push(mismatched && String.fromCodePoint(...mismatched.tokenIds))
  }
  return all
}

it('a mismatched answer is the nearest one before it to another prompt, in a circle', async () => {
  expect(await mismatchedOf([...['A+', 'A-'].map((a) => ['A', a] as const), ['B', 'B+'], ['B', 'B-']])).toEqual([
    'AB-',
    'AB-',
    'BA-',
    'BA-',
  ])
  expect(
    await mismatchedOf([
      ['A', 'a'],
      ['B', 'b'],
      ['C', 'c'],
    ]),
  ).toEqual(['Ac', 'Ba', 'Cb'])
})

async function* rowsOf(...rows: readonly object[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n'))
}

it.each([
  [0, 1],
  ['0', '1'],
  ['False', 'True'],
  ['false', ' true '],
])('labels that tables write as %j and %j are labels', async (bad, good) => {
  const rows = [bad, good].map((label) => ({ prompt: 'q', completion: 'a', label }))
  const read: boolean[] = []
  for await (const { isDesirable } of readUnpairedExamples(rowsOf(...rows))) read.push(isDesirable)
  expect(read).toEqual([false, true])
  // a supervised job would learn the bad one
  await expect(countSftExamples(rowsOf(...rows))).rejects.toMatchObject({ message: expect.stringContaining('KTO row') })
})

it.each([2, 'good', [true], 0.5])('a label of %j says neither', async (label) => {
  await expect(countUnpairedExamples(rowsOf({ prompt: 'q', completion: 'a', label }))).rejects.toMatchObject({
    code: 'invalid_label',
  })
})

it('a turn of the weight 0 does not train, and a row that says it does not train is refused', async () => {
  const turns = (...answers: readonly object[]) => [{ role: 'user', content: 'Q' }, ...answers]
  const row = {
    prompt: turns(),
    completion: [{ role: 'assistant', content: 'ab', weight: 0 }, ...turns({ role: 'assistant', content: 'c' })],
    label: true,
  }
  for await (const { answers } of readUnpairedBatches(rowsOf(row), { text, batchSize: 1, maxLength: 99 })) {
    expect(answers.map(({ answer }) => [...answer.lossMask])).toEqual([[0, 0, 0, 0, 1]])
  }
  for (const word of [{ weight: 0 }, { train: false }, { loss_mask: 'none' }]) {
    const kto = { prompt: 'q', completion: 'a', label: true, ...word }
    await expect(countUnpairedExamples(rowsOf(kto))).rejects.toMatchObject({ category: 'invalid_request' })
    const pair = { prompt: 'q', chosen: 'a', rejected: 'b', ...word }
    await expect(countPreferenceExamples(rowsOf(pair))).rejects.toMatchObject({ category: 'invalid_request' })
  }
})

it('where a batch has one prompt there is none', async () => {
  expect(
    await mismatchedOf(
      [
        ['A', 'a'],
        ['A', 'b'],
        ['B', 'c'],
      ],
      2,
    ),
  ).toEqual([null, null, null])
})
