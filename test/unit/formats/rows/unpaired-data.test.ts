/** Labelled answers: which answer stands as a mismatched one behind whose prompt. */
import { expect, it } from 'vitest'
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
