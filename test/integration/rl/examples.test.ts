/**
 * The worked examples, at small scale and until they are good enough, on the built-in model: the mean reward of held-out tasks rises by far more than
 * chance explains. Rewards lie in [0, 1] and a mean is over 64 episodes or more; its standard error seen is at most 0.05.
 */
import { startLocal, TrainableModel } from 'trainyard/rl'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { learnTheHabit } from '../../examples/coin-game.js'
import { learnOrderNumbers } from '../../examples/order-number.js'
import { learnToLookUp } from '../../examples/tool-agent.js'

/** A step takes seconds on an idle machine; the limit is for one that is not. */
const LIMIT_MS = 1_500_000

let local: Awaited<ReturnType<typeof startLocal>>
beforeAll(async () => {
  local = await startLocal({ logLevel: 'error' })
})
afterAll(() => local.close())

async function register(name: string): Promise<TrainableModel> {
  return await new TrainableModel(local.client, { name, baseModel: 'trainyard/spark' }).register()
}

/** The best of the measurements after training; all of them are shown when there is no rise. */
function expectRise(curve: readonly number[], least: number): void {
  const [before = 1, ...after] = curve
  expect(Math.max(...after), curve.map((reward) => reward.toFixed(2)).join(' ')).toBeGreaterThan(before + least)
}

test('order number: one turn', { timeout: LIMIT_MS }, async () => {
  expectRise(await learnOrderNumbers(await register('orders'), 40, 0.75), 0.3)
})
test('tool agent: several turns', { timeout: LIMIT_MS }, async () => {
  expectRise(await learnToLookUp(await register('weather'), 60, 0.8), 0.2)
})
test('coin game: a reward for every turn', { timeout: LIMIT_MS }, async () => {
  expectRise(await learnTheHabit(await register('coins'), 60, 0.8), 0.2)
})
