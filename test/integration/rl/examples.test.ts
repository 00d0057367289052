/**
 * The worked examples, at small scale, on the built-in model: the mean reward of held-out tasks rises by far more than
 * chance explains. Rewards lie in [0, 1] and a mean is over 64 episodes or more; its standard error seen is at most 0.05, that
 * of the rise of three means over the first at most 0.06. No single lucky measurement decides.
 */
import { startLocal, TrainableModel } from 'trainyard/rl'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { learnTheHabit } from '../../examples/coin-game.js'
import { learnOrderNumbers } from '../../examples/order-number.js'
import { learnToLookUp } from '../../examples/tool-agent.js'

/** A step takes seconds on an idle machine; the limit is for one that is not. */
const LIMIT_MS = 1_500_000
/** Usually four to ten are enough. */
const MOST_STEPS = 60

let local: Awaited<ReturnType<typeof startLocal>>
beforeAll(async () => {
  local = await startLocal({ logLevel: 'error' })
})
afterAll(() => local.close())

let models = 0
async function register(name: string): Promise<TrainableModel> {
  models += 1
  return await new TrainableModel(local.client, { name: `${name}-${models}`, baseModel: 'trainyard/spark' }).register()
}

/** Measurements at the end that count together. */
const LAST = 3

/** Trains until the mean of the last measurements is that much above the first, whatever luck the first one had. */
async function expectRise(
  learn: (model: TrainableModel, steps: number, isEnough: (curve: readonly number[]) => boolean) => Promise<number[]>,
  name: string,
  least: number,
): Promise<void> {
  const riseOf = ([first = 1, ...trained]: readonly number[]): number => {
    if (trained.length < LAST) return Number.NEGATIVE_INFINITY
    return trained.slice(-LAST).reduce((sum, reward) => sum + reward, 0) / LAST - first
  }
  const curve = await learn(await register(name), MOST_STEPS, (measured) => riseOf(measured) > least)
  expect(riseOf(curve), curve.map((reward) => reward.toFixed(2)).join(' ')).toBeGreaterThan(least)
}

test('order number: one turn', { timeout: LIMIT_MS }, () => expectRise(learnOrderNumbers, 'orders', 0.4))
test('tool agent: several turns', { timeout: LIMIT_MS }, () => expectRise(learnToLookUp, 'weather', 0.3))
test('coin game: a reward for every turn', { timeout: LIMIT_MS }, () => expectRise(learnTheHabit, 'coins', 0.3))
