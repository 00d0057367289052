/** Signs whose rows point the same way as those of other tokens, against cosines computed in float64. */
import { expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { findLostTokens } from '#model/inspection/lost-tokens.js'

const SIZE = 24

/** A model of these tokens. @param same tokens and the one whose row they share, times a length and off by some noise */
async function lostOf(
  tokens: readonly string[],
  {
    same = {},
    noise = 0,
    tied = true,
    rows = tokens.length,
  }: { same?: Readonly<Record<string, string>>; noise?: number; tied?: boolean; rows?: number } = {},
) {
  const rng = createRng('lost')
  const weights = Float32Array.from({ length: rows * SIZE }, () => rng.normal())
  for (const [token, other] of Object.entries(same)) {
    const [to, from] = [tokens.indexOf(token) * SIZE, tokens.indexOf(other) * SIZE]
    for (let i = 0; i < SIZE; i++) weights[to + i] = 3 * (weights[from + i] as number) + noise * rng.normal()
  }
  const read: string[] = []
  const source = {
    readFloat32: async (name: string) => {
      read.push(name)
      return weights.slice()
    },
  }
  const tokenizer = {
    vocabularySize: tokens.length,
    isSpecial: (id: number) => tokens[id]?.startsWith('<|') === true,
    tokenBytes: (id: number) => Buffer.from(tokens[id] ?? ''),
  }
  const config = { isEmbeddingTied: tied, vocabularySize: rows, hiddenSize: SIZE }
  const found = await findLostTokens(source, config, { tokenizer })
  const unit = (id: number): number[] => {
    const row = [...weights.subarray(id * SIZE, (id + 1) * SIZE)]
    const length = Math.hypot(...row)
    return row.map((each) => each / length)
  }
  const cosine = (a: number, b: number): number => {
    const other = unit(b)
    return unit(a).reduce((sum, each, i) => sum + each * (other[i] ?? 0), 0)
  }
  return { found: found?.map(({ text }) => text) ?? null, read, cosine }
}

const TOKENS = ['a', 'the', '<', '>', '$', ' [', '"]', '<|end|>', '...', '::::', '<']

test('signs that share a direction with another token are lost, whatever the length of their rows', async () => {
  const { found, read } = await lostOf(TOKENS, { same: { '>': 'the', $: '<|end|>', ' [': '"]' } })
  // the shortest first; both ends of a pair of signs
  expect(found).toEqual(['>', '$', ' [', '"]'])
  expect(read).toEqual(['model.embed_tokens.weight'])
})

test('words are none, and neither is a sign that another token writes as well', async () => {
  expect((await lostOf(TOKENS, { same: { the: 'a' } })).found).toEqual([])
  const twice = TOKENS.indexOf('<')
  expect(TOKENS.lastIndexOf('<')).not.toBe(twice)
  const { found } = await lostOf(['<', 'x', '<'], { same: {} })
  expect(found).toEqual([])
})

test('the border is a cosine of 0.99', async () => {
  for (const noise of [0.05, 0.2, 0.4, 0.6, 1, 2]) {
    const { found, cosine } = await lostOf(TOKENS, { same: { '>': 'the' }, noise })
    expect(found, `cosine ${cosine(3, 1)}`).toEqual(cosine(3, 1) >= 0.99 ? ['>'] : [])
  }
})

test('rows beyond the tokenizer count, a head of its own is what is read, and a large one is not', async () => {
  const zeros = await lostOf(['(', 'x'], { rows: 2 })
  expect(zeros.found).toEqual([])
  expect((await lostOf(['(', 'x'], { tied: false })).read).toEqual(['lm_head.weight'])
  const large = await findLostTokens(
    { readFloat32: () => Promise.reject(new Error('not read')) },
    { isEmbeddingTied: true, vocabularySize: 152_000, hiddenSize: 896 },
    { tokenizer: { vocabularySize: 152_000, isSpecial: () => false, tokenBytes: () => Buffer.from('<') } },
  )
  expect(large).toBeNull()
})
