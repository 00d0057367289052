/** Right by chance: said where labels are guessed, silent where they are known, where answers are no labels, and where few were asked. */
import { expect, test } from 'vitest'
import type { Example } from '#plugins/rollout/examples.js'
import { sayOfGuessing } from '#plugins/rollout/guessing.js'

/** So many prompts with two answers each. @param said by the number of the prompt and that of the answer */
function asked(count: number, wanted: (prompt: number) => string, said: (prompt: number, answer: number) => string) {
  return Array.from({ length: count }, (_, prompt) => ({ prompt: `q${prompt}`, answer: wanted(prompt) })).flatMap(
    (row, prompt): Example[] =>
      [0, 1].map((i) => ({ messages: [], answer: said(prompt, i), reward: 0, metrics: {}, row })),
  )
}
const remainder = (prompt: number) => String(prompt % 7)

test('labels that have nothing to do with the prompt are said to be guessed, with the share that chance earns', () => {
  const [said] = sayOfGuessing(asked(42, remainder, (prompt, i) => String((3 * prompt * prompt + i) % 7)))
  expect(said).toContain('which of the 7 answers belongs where is not learned')
  // one in seven wants each label, whatever was said
  expect(said).toContain('where the same answers in any order would earn 0.143')
})

test('always the same answer is a guess, too', () => {
  expect(
    sayOfGuessing(
      asked(
        20,
        (prompt) => (prompt % 2 === 0 ? 'A1' : 'B2'),
        () => 'B2',
      ),
    ),
  ).toHaveLength(1)
})

test.each([
  [
    'two of three labels right',
    asked(42, remainder, (prompt, i) => (prompt % 3 === 0 ? String(i) : remainder(prompt))),
  ],
  ['sentences', asked(42, remainder, (prompt) => `It is ${prompt}.`)],
  [
    'as many answers as prompts',
    asked(
      42,
      (prompt) => `name${prompt}`,
      (prompt) => `name${prompt + 1}`,
    ),
  ],
  ['eight prompts', asked(8, remainder, () => '1')],
])('silent about %s', (_, examples) => {
  expect(sayOfGuessing(examples)).toEqual([])
})
