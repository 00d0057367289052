/** Training loops in TypeScript against a real service with real workers: what each call of a session does, and in which order. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLogger } from '../../../src/base/logging/logger.js'
import {
  type LocalService,
  type LossValue,
  openLoss,
  startLocal,
  TrainableModel,
  type TrainingSession,
} from '../../../src/rl.js'

const ROWS = [
  { prompt: [1, 20], tokens: [30, 40, 50, 60] },
  { prompt: [2], tokens: [21, 31, 41] },
]
const UPDATE = { learningRate: 0.01 }

let local: LocalService
let models = 0
beforeAll(async () => {
  local = await startLocal({
    baseModels: ['trainyard/tiny-random'],
    trainWorkers: 2,
    logger: createLogger({ level: 'silent' }),
  })
})
afterAll(() => local.close())

async function register(): Promise<TrainableModel> {
  models += 1
  const options = { name: `loop-${models}`, baseModel: 'trainyard/tiny-random' }
  return await new TrainableModel(local.client, options).register()
}

/** Runs with a session that is closed in the end, whatever happens. */
async function inSession<T>(work: (session: TrainingSession, model: TrainableModel) => Promise<T>): Promise<T> {
  const model = await register()
  const session = await model.session({ rank: 4, seed: 1 })
  try {
    return await work(session, model)
  } finally {
    await session.close()
  }
}

function crossEntropy(logprobs: readonly Float32Array[]): LossValue {
  const loss = -logprobs.flatMap((row) => [...row]).reduce((sum, logp) => sum + logp, 0)
  return { loss, gradients: logprobs.map((row) => row.map(() => -1)) }
}

describe('a session', () => {
  test('supervised steps, sent before any was awaited, lower the loss; rows are answered without their prompts', async () => {
    const losses = await inSession(async (session) => {
      const steps = Array.from({ length: 4 }, () =>
        Promise.all([session.forwardBackward(ROWS, 'cross_entropy'), session.optimStep(UPDATE)]),
      )
      return (await Promise.all(steps)).map(([loss]) => loss)
    })
    const [first, last] = [losses[0], losses[3]]
    expect(first?.logprobs.map((row) => row.length)).toEqual([4, 3])
    expect(first?.loss).toBeCloseTo(-(first?.logprobs.flatMap((row) => [...row]).reduce((a, b) => a + b) as number), 4)
    expect(last?.loss).toBeLessThan((first?.loss as number) * 0.95)
  })

  test('a loss of one’s own that is cross-entropy trains as cross-entropy does, an update sent behind it included', async () => {
    const curve = (loss: 'cross_entropy' | typeof crossEntropy) =>
      inSession(async (session) => {
        const seen: number[] = []
        for (let step = 0; step < 3; step++) {
          // an overload has one kind of loss each
          const trained =
            loss === 'cross_entropy' ? session.forwardBackward(ROWS, loss) : session.forwardBackward(ROWS, loss)
          const [value, update] = await Promise.all([trained, session.optimStep(UPDATE)])
          seen.push(value.loss, update.gradientNorm)
        }
        return seen
      })
    const [served, own] = [await curve('cross_entropy'), await curve(crossEntropy)]
    // scored by one graph and trained by another, in float32
    served.forEach((value, i) => {
      expect(Math.abs((own[i] as number) / value - 1), `value ${i}`).toBeLessThan(1e-4)
    })
  })

  test('samples and the trainer give the same tokens the same log-probabilities, before and after an update', async () => {
    await inSession(async (session) => {
      const prompt = [1, 20, 30]
      const farthest = async () => {
        const samples = await session.sample(prompt, { n: 3, maxTokens: 6, seed: 4 })
        expect(samples).toHaveLength(3)
        const scores = await session.logprobs(samples.map(({ tokens }) => ({ prompt, tokens })))
        const distances = samples.flatMap(({ logprobs }, i) =>
          logprobs.map((logp, at) => Math.abs(logp - (scores[i]?.[at] as number))),
        )
        return { samples, distance: Math.max(...distances) }
      }
      const before = await farthest()
      expect(before.distance).toBeLessThan(0.02)
      await Promise.all([session.forwardBackward(ROWS, 'cross_entropy'), session.optimStep({ learningRate: 0.05 })])
      const after = await farthest()
      expect(after.distance).toBeLessThan(0.02)
      // from the new weights: the same seed says something else, or with another probability
      expect(after.samples).not.toEqual(before.samples)
    })
  })

  test('every built-in loss, and every one of the literature, takes what was sampled; where old and new policy are one, they have one gradient', async () => {
    await inSession(async (session) => {
      const prompt = [1, 20, 30]
      const samples = await session.sample(prompt, { n: 4, maxTokens: 5, seed: 1 })
      const scores = await session.logprobs(samples.map(({ tokens }) => ({ prompt, tokens })))
      const rows = samples.map(({ tokens }, i) => ({
        prompt,
        tokens,
        logprobs: [...(scores[i] as Float32Array)],
        advantages: i - 1.5,
      }))
      const norms: Record<string, number> = {}
      for (const loss of ['importance_sampling', 'ppo', 'cispo', 'dro'] as const) {
        const [, update] = await Promise.all([
          session.forwardBackward(rows, loss),
          session.optimStep({ learningRate: 0, maxGradientNorm: 1 }),
        ])
        norms[loss] = update.gradientNorm
      }
      for (const loss of ['dual_clip', 'sapo', 'gpg', 'luspo', 'gspo_token', 'gmpo']) {
        const [, update] = await Promise.all([
          session.forwardBackward(rows, await openLoss(loss)),
          session.optimStep({ learningRate: 0, maxGradientNorm: 1 }),
        ])
        norms[loss] = update.gradientNorm
      }
      for (const [name, norm] of Object.entries(norms)) {
        expect(Math.abs(norm / (norms['importance_sampling'] as number) - 1), name).toBeLessThan(1e-3)
      }
      const sequence = await session.forwardBackward(rows, 'gspo', { clipLow: 0.9, clipHigh: 1.1 })
      // every ratio is 1: the loss is what the advantages add up to
      const expected = -rows.reduce((sum, { tokens, advantages }) => sum + tokens.length * advantages, 0)
      expect(sequence.loss).toBeCloseTo(expected, 2)
    })
  })

  test('what is saved is a checkpoint of the model that chats; a state goes on with the same bits', async () => {
    await inSession(async (session, model) => {
      const step = async (of: TrainingSession) =>
        (await Promise.all([of.forwardBackward(ROWS, 'cross_entropy'), of.optimStep(UPDATE)]))[0].loss
      await step(session)
      const [saved, path] = await Promise.all([session.save('first'), session.saveState()])
      expect(saved).toMatchObject({ step: 1, inferenceName: model.inferenceName(1) })
      expect(model.step).toBe(1)
      const [answer] = await model.sample([{ role: 'user', content: 'a' }], { n: 1, maxTokens: 2 })
      expect(answer?.choices).toHaveLength(1)
      await expect(model.session({ rank: 4 })).rejects.toMatchObject({ code: 'option_without_effect' })
      const [resumed, latest] = [await model.session({ from: path }), await model.session()]
      const here = [await step(session), await step(session)]
      expect([await step(resumed), await step(resumed)]).toEqual(here)
      await resumed.close()
      // the checkpoint has the weights and not the moments
      const anew = [await step(latest), await step(latest)]
      await latest.close()
      expect(anew[0]).toBe(here[0])
      expect(anew[1]).not.toBe(here[1])
      expect((await session.save()).step).toBe(2)
      await expect(session.save('first')).rejects.toThrow('exists already')
    })
  })

  test('it begins with what a job made, and a job goes on from what it saved', async () => {
    const model = await register()
    const conversation = {
      messages: [
        { role: 'user' as const, content: 'a' },
        { role: 'assistant' as const, content: 'bc' },
      ],
    }
    await model.trainSft([conversation], { learningRate: 0.01, config: { epochs: 2 } })
    const session = await model.session()
    const [sampled] = await model.sample([{ role: 'user', content: 'a' }], { n: 1, maxTokens: 6 })
    const choice = sampled?.choices[0]
    const [prompt, tokens] = [choice?.prompt_token_ids ?? [], choice?.token_ids ?? []]
    const [scores] = await session.logprobs([{ prompt, tokens }])
    const sampler = choice?.logprobs?.content?.map(({ logprob }) => logprob) ?? []
    expect(sampler).toHaveLength(tokens.length)
    expect(Math.max(...sampler.map((logp, i) => Math.abs(logp - (scores?.[i] as number))))).toBeLessThan(0.02)
    await Promise.all([session.forwardBackward(ROWS, 'cross_entropy'), session.optimStep(UPDATE)])
    expect((await session.save()).step).toBe(2)
    await session.close()
    expect((await model.trainSft([conversation], { learningRate: 0.01 })).step).toBe(3)
    await expect(model.session({ from: 9 })).rejects.toThrow('no checkpoint of step 9')
  })

  test('text goes in and comes out', async () => {
    await inSession(async (session) => {
      const tokens = await session.encode('one two')
      expect(await session.decode(tokens)).toContain('one two')
      expect((await session.encode([{ role: 'user', content: 'one two' }])).length).toBeGreaterThan(2)
    })
  })
})

describe('what is refused', () => {
  test('is said in the words of this library, and the session goes on', async () => {
    await inSession(async (session) => {
      const [row] = ROWS as [(typeof ROWS)[0]]
      const wrong: readonly [() => Promise<unknown>, string][] = [
        [() => session.forwardBackward([], 'cross_entropy'), 'rows is empty'],
        [() => session.forwardBackward([{ prompt: [], tokens: [1] }], 'cross_entropy'), 'rows[0].prompt has no tokens'],
        [() => session.forwardBackward([{ ...row, weights: [1] }], 'cross_entropy'), 'rows[0].weights has 1 numbers'],
        [() => session.forwardBackward([row] as never, 'ppo'), 'rows[0] has no logprobs'],
        [() => session.forwardBackward([row] as never, 'reinforce' as never), 'got "reinforce"'],
        [() => session.forwardBackward([row] as never, 'ppo', { beta: 1 }), 'settings of ppo have "beta"'],
        [() => session.forwardBackward([row], () => ({ loss: 1, gradients: [[1]] })), 'gradients[0], expected 4'],
        [() => session.optimStep({} as never), 'needs a learningRate'],
        [() => session.optimStep({ learningRate: -1 }), 'learningRate must be'],
        [() => session.optimStep(UPDATE), 'no gradients'],
        [() => session.logprobs([{ prompt: [1], tokens: [999_999] }]), '999999'],
        [() => session.save('a/b'), 'path'],
      ]
      for (const [call, reason] of wrong) await expect(call(), reason).rejects.toThrow(reason)
      const thrown = new Error('mine')
      const own = session.forwardBackward([row], () => {
        throw thrown
      })
      await expect(own).rejects.toBe(thrown)
      expect((await session.forwardBackward(ROWS, 'cross_entropy')).loss).toBeGreaterThan(0)
    })
  })

  test('a closed session answers nothing, and closing it twice is no error', async () => {
    const session = await (await register()).session()
    const last = session.forwardBackward(ROWS, 'cross_entropy')
    await session.close()
    expect((await last).loss).toBeGreaterThan(0)
    await session.close()
    await expect(session.logprobs(ROWS)).rejects.toMatchObject({ code: 'session_closed' })
    await expect(session.sample([1])).rejects.toMatchObject({ code: 'session_closed' })
  })
})
