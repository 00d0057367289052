/** Losses of the literature as functions of training sessions, against what TRL and verl compute, and what is refused. */
import { expect, it } from 'vitest'
import { openLoss } from '#plugins/literature/library.js'
import { readGolden } from '../../support/model/decoder-goldens.js'

interface PolicyCase {
  readonly loss: string
  readonly options: Readonly<Record<string, number>>
  readonly by: string
  readonly mode: 'sum' | 'sequences'
  readonly logp: readonly (readonly number[])[]
  readonly old: readonly (readonly number[])[]
  readonly advantages: readonly number[]
  readonly value: number
  readonly gradient: readonly (readonly number[])[]
}

/** Log-probabilities that a session answers are float32. */
const rounded = (rows: readonly (readonly number[])[]) => rows.map((row) => Float32Array.from(row))

it("are TRL's and verl's: sums over tokens with their slopes", async () => {
  const { policies } = await readGolden<{ policies: readonly PolicyCase[] }>('losses.json')
  const sums = policies.filter(({ mode }) => mode === 'sum')
  expect(new Set(sums.map(({ loss }) => loss)).size).toBe(5)
  for (const { loss, options, by, logp, old, advantages, value, gradient } of sums) {
    const own = await openLoss(loss, options)
    const rows = logp.map((tokens, i) => ({
      prompt: [1],
      tokens: tokens.map(() => 2),
      logprobs: old[i]!,
      advantages: advantages[i]!,
    }))
    const got = await own(rounded(logp), rows)
    expect(Math.abs(got.loss - value), `${loss} by ${by}`).toBeLessThan(1e-4 * Math.max(1, Math.abs(value)))
    gradient.forEach((slopes, i) => {
      expect(got.gradients[i]!.length).toBe(slopes.length)
      slopes.forEach((slope, t) => {
        const distance = Math.abs(got.gradients[i]![t]! - slope)
        // at the bound of a clip rounding decides which side counts
        const isAtBound = distance > 1e-4 * Math.max(1, Math.abs(slope)) && Math.abs(got.gradients[i]![t]!) < 1e-12
        expect(isAtBound || distance <= 1e-4 * Math.max(1, Math.abs(slope)), `${loss} by ${by}: ${slope}`).toBe(true)
      })
    })
  }
})

it('may be one of your own, as of --loss', async () => {
  const mine = await openLoss(({ ratio, advantage }, { mul, neg, min }) => neg(mul(min(ratio, 1.5), advantage)))
  const row = { prompt: [1], tokens: [2, 3], logprobs: [-1, -1], advantages: [1, -2] }
  const { loss, gradients } = await mine([Float32Array.of(-1, -0.5)], [row])
  expect(loss).toBeCloseTo(-1 + 2 * 1.5, 6)
  expect(Array.from(gradients[0]!)).toEqual([-1, 0])
  const { loss: example } = await (await openLoss('dft'))([Float32Array.of(-1)], [{ ...row, tokens: [2] }])
  expect(example).toBeCloseTo(Math.exp(-1), 6)
})

it('names what it does not know, and what a row lacks', async () => {
  await expect(openLoss('aot')).rejects.toThrow(/loss must be one of dual_clip, .* or a function, got "aot"/)
  await expect(openLoss('gpg', { delta: 3 })).rejects.toThrow(/the settings of gpg have "delta", expected none/)
  await expect(openLoss('dual_clip', { beta: 3 })).rejects.toThrow(/expected epsilon, epsilon_high, delta/)
  await expect(openLoss(({ advantage }, { exp }) => exp(advantage))).rejects.toThrow(/does not read logp/)
  const loss = await openLoss('sapo')
  const row = { prompt: [1], tokens: [2], advantages: 1 }
  expect(() => loss([Float32Array.of(-1)], [row as never])).toThrow(/rows\[0\] has no logprobs, which sapo takes/)
})
