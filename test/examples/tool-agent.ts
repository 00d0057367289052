/**
 * Several turns with tools: the environment (`weather.js`) runs the calls, the reward of the whole episode is given once, at its
 * end. Cities of the evaluation are never trained on.
 */
import { gather, group, play, type TrainableModel } from 'trainyard/rl'
import { weatherQuestion } from './weather.js'

const training = ['Paris', 'Cairo', 'Oslo', 'Berlin']
const heldOut = ['Rome', 'Lima', 'Tokyo', 'London']

const isAlmostPerfect = (curve: readonly number[]): boolean => (curve.at(-1) ?? 0) >= 0.95

/** Trains for some steps, or until it is good enough; the mean reward of held-out episodes before the first and after each step. */
export async function learnToLookUp(
  model: TrainableModel,
  steps: number,
  isEnough: (curve: readonly number[]) => boolean = isAlmostPerfect,
): Promise<number[]> {
  const episodes = (cities: readonly string[], size: number) =>
    gather(
      cities.map((city) => group(size, () => play(model, weatherQuestion(city), { maxTurns: 3, maxTokens: 32 }))),
      { retries: 1 },
    )
  const evaluate = async () => (await model.evaluate(await episodes(heldOut, 16))).metrics['val/reward'] ?? 0

  const curve = [await evaluate()]
  for (let step = 0; step < steps && !isEnough(curve); step += 1) {
    // A step of the optimizer sees two packed rows instead of one: fewer, steadier steps.
    await model.train(await episodes(training, 10), {
      learningRate: 1.5e-3,
      config: { grad_accumulation_sequences: 2 },
    })
    curve.push(await evaluate())
  }
  return curve
}
