/**
 * The head under a temperature and kept sets against float64: log q, entropy and the slope of the first to 1e-5 of 1 + their size, the slope of
 * the entropy to 1e-4 (logits over a temperature of 0.3 are large, and float32 has seven digits of them).
 *
 * Positions of all temperatures and sets stand in one batch. The numbers of `src/docs/reference/how-training-works.md` (z = 2, 1, 0, -1) are
 * reproduced, and at temperature 1 without a set the bits are those of the plain head.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { fusedHead } from '#numerics/nn/fused-head.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'

const [WIDTH, VOCABULARY] = [6, 700]
const OUTPUTS = ['logp', 'entropy', 'slope', 'entropySlope'] as const
type Outputs = Record<(typeof OUTPUTS)[number], Float32Array>

/** A position: T, and the tokens that could be drawn; null for all. */
interface Drawn {
  readonly label: number
  readonly temperature: number
  readonly kept: readonly number[] | null
}

let directory: string
const sessions: Session[] = []
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-sampled-head-'))
})
afterAll(async () => {
  for (const session of sessions) await session.release()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function open(
  shape: { readonly width: number; readonly vocabulary: number },
  inputs: { readonly isTempered: boolean; readonly hasKept: boolean },
): Promise<Session> {
  const g = new GraphBuilder('head')
  const head = fusedHead(
    g,
    {
      hidden: g.input('hidden', 'float32', ['M', shape.width]),
      weight: g.input('weight', 'float32', [shape.vocabulary, shape.width]),
      labelPositions: g.input('positions', 'int64', ['Q', 'C']),
      labels: g.input('labels', 'int64', ['Q', 'C']),
      inverseTemperature: inputs.isTempered ? g.input('heat', 'float32', ['Q', 'C']) : undefined,
      kept: inputs.hasKept
        ? { ids: g.input('kept', 'int64', ['Q', 'C', 'K']), isLimited: g.input('limited', 'bool', ['Q', 'C']) }
        : undefined,
    },
    { slopes: 'logp_and_entropy' },
  )
  for (const name of OUTPUTS) g.output(head[name]!, name)
  const path = join(directory, `${sessions.length}.onnx`)
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  sessions.push(session)
  return session
}

/** One position a row of hidden states, two chunks. */
async function run(session: Session, hidden: Float32Array, weight: Float32Array, drawn: readonly Drawn[]) {
  const width = hidden.length / drawn.length
  const shape = [2, drawn.length / 2]
  const sets = Math.max(1, ...drawn.map(({ kept }) => kept?.length ?? 0))
  const feeds: Record<string, HostTensor> = {
    hidden: float32Tensor(hidden, [drawn.length, width]),
    weight: float32Tensor(weight, [weight.length / width, width]),
    positions: int64Tensor(
      drawn.map((_, n) => n),
      shape,
    ),
    labels: int64Tensor(
      drawn.map(({ label }) => label),
      shape,
    ),
    heat: float32Tensor(
      Float32Array.from(drawn, ({ temperature }) => 1 / temperature),
      shape,
    ),
    kept: int64Tensor(
      drawn.flatMap(({ kept, label }) => Array.from({ length: sets }, (_, k) => kept?.[k] ?? label)),
      [...shape, sets],
    ),
    limited: { dtype: 'bool', shape, data: Uint8Array.from(drawn, ({ kept }) => (kept === null ? 0 : 1)) },
  }
  const known = new Set(session.inputNames)
  const outputs = await session.run(Object.fromEntries(Object.entries(feeds).filter(([name]) => known.has(name))))
  return Object.fromEntries(OUTPUTS.map((name) => [name, outputs[name]!.data as Float32Array])) as Outputs
}

/** log q of the label and the entropy of q in float64, with their gradients to the hidden state from the formulas. */
function reference(hidden: ArrayLike<number>, weight: ArrayLike<number>, { label, temperature, kept }: Drawn) {
  const width = hidden.length
  const among = kept ?? Array.from({ length: weight.length / width }, (_, v) => v)
  const row = (v: number) => Array.from({ length: width }, (_, e) => weight[v * width + e]!)
  const logit = (v: number) => row(v).reduce((sum, w, e) => sum + w * hidden[e]!, 0) / temperature
  const logits = among.map(logit)
  const top = Math.max(...logits)
  const normalizer = top + Math.log(logits.reduce((sum, z) => sum + Math.exp(z - top), 0))
  const q = logits.map((z) => Math.exp(z - normalizer))
  const mean = (of: (index: number) => number) => q.reduce((sum, share, k) => sum + share * of(k), 0)
  const expected = mean((k) => logits[k]!)
  const slopes = row(label).map((w, e) => (w - mean((k) => weight[among[k]! * width + e]!)) / temperature)
  const entropySlopes = row(label).map(
    (_, e) => mean((k) => (expected - logits[k]!) * weight[among[k]! * width + e]!) / temperature,
  )
  return { logp: logit(label) - normalizer, entropy: normalizer - expected, slopes, entropySlopes }
}

describe('the fused head of what was sampled', () => {
  const rng = createRng('sampled head')
  const random = (length: number) => Float32Array.from({ length }, () => rng.normal())
  const drawn = [0.3, 0.5, 1, 1.7, 2].flatMap((temperature) =>
    [null, 1, 2, 64, 512].map((size): Drawn => {
      const label = rng.integer(VOCABULARY)
      const others = new Set<number>()
      while (size !== null && others.size < size - 1) {
        const other = rng.integer(VOCABULARY)
        if (other !== label) others.add(other)
      }
      return { label, temperature, kept: size === null ? null : [...others, label].sort((a, b) => a - b) }
    }),
  )
  // an even number, for two chunks
  drawn.push({ label: 3, temperature: 0.7, kept: [5, 3] })
  const [hidden, weight] = [random(drawn.length * WIDTH), random(VOCABULARY * WIDTH)]
  const rowOf = (n: number) => hidden.subarray(n * WIDTH, (n + 1) * WIDTH)

  it('has log q, its entropy and their slopes, temperatures and sets mixed', async () => {
    const session = await open({ width: WIDTH, vocabulary: VOCABULARY }, { isTempered: true, hasKept: true })
    const outputs = await run(session, hidden, weight, drawn)
    const worst = { logp: 0, entropy: 0, slope: 0, entropySlope: 0 }
    drawn.forEach((each, n) => {
      const wanted = reference(rowOf(n), weight, each)
      const note = (name: keyof typeof worst, got: number, expected: number) => {
        worst[name] = Math.max(worst[name], Math.abs(got - expected) / (1 + Math.abs(expected)))
      }
      note('logp', outputs.logp[n]!, wanted.logp)
      note('entropy', outputs.entropy[n]!, wanted.entropy)
      for (let e = 0; e < WIDTH; e += 1) {
        note('slope', outputs.slope[n * WIDTH + e]!, wanted.slopes[e]!)
        note('entropySlope', outputs.entropySlope[n * WIDTH + e]!, wanted.entropySlopes[e]!)
      }
    })
    for (const [name, error] of Object.entries(worst))
      expect(error, name).toBeLessThan(name === 'entropySlope' ? 1e-4 : 1e-5)
  })

  it('has nothing to say of a token that alone could be drawn: log q and its gradient are 0', async () => {
    const session = await open({ width: WIDTH, vocabulary: VOCABULARY }, { isTempered: true, hasKept: true })
    const outputs = await run(session, hidden, weight, drawn)
    drawn.forEach(({ kept }, n) => {
      if (kept?.length !== 1) return
      const slopeOf = (of: Float32Array) => [...of.subarray(n * WIDTH, (n + 1) * WIDTH)]
      for (const number of [outputs.logp[n]!, ...slopeOf(outputs.slope)]) expect(Math.abs(number)).toBe(0)
      // the entropy is a difference of two sums, and its slope has what float32 leaves of it
      for (const number of [outputs.entropy[n]!, ...slopeOf(outputs.entropySlope)]) {
        expect(Math.abs(number)).toBeLessThan(1e-4)
      }
    })
  })

  it('has the bits of the plain head at temperature 1 without a set', async () => {
    const plain = drawn.map(({ label }): Drawn => ({ label, temperature: 1, kept: null }))
    const shape = { width: WIDTH, vocabulary: VOCABULARY }
    const before = await run(await open(shape, { isTempered: false, hasKept: false }), hidden, weight, plain)
    for (const hasKept of [false, true]) {
      const session = await open(shape, { isTempered: true, hasKept })
      const outputs = await run(session, hidden, weight, plain)
      for (const name of OUTPUTS) expect(Buffer.from(outputs[name].buffer)).toEqual(Buffer.from(before[name].buffer))
    }
  })

  it('has the numbers that are published', async () => {
    const session = await open({ width: 4, vocabulary: 4 }, { isTempered: true, hasKept: true })
    const identity = Float32Array.from({ length: 16 }, (_, i) => (i % 5 === 0 ? 1 : 0))
    const z = [2, 1, 0, -1]
    const logq = async (temperature: number, kept: readonly number[] | null) => {
      const positions = z.map((_, label): Drawn => ({ label, temperature, kept }))
      const outputs = await run(session, Float32Array.from(z.flatMap(() => z)), identity, positions)
      return [...outputs.logp]
    }
    const close = (got: readonly number[], wanted: readonly number[]) => {
      for (const [v, value] of wanted.entries()) expect(Math.abs(got[v]! - value)).toBeLessThan(2e-6)
    }
    close(await logq(1, null), [-0.44019])
    close(await logq(0.5, null), [-0.145078, -2.145078, -4.145078, -6.145078])
    close(await logq(2, null), [-0.787339])
    // top-p 0.8 keeps two tokens, of 0.880797 together
    close(await logq(1, [0, 1]), [-0.313262, -1.313262])
  })
})
