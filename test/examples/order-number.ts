/**
 * One turn: find the order number in a mail and say nothing else.
 *
 * The model is asked eight times per mail; the answer that holds the number scores, the one that is only the number scores
 * most. Mails of the evaluation are never trained on.
 */
import { combineRewards, containsAnswer, exactAnswer, gather, group, type TrainableModel } from 'trainyard/rl'

const names = ['Anna', 'Tom', 'Mia', 'Omar', 'Lena', 'Ravi']
const texts = [
  (order: string, name: string) => `Hello, where is order ${order}? Regards, ${name}.`,
  (order: string, name: string) => `My order ${order} is late. ${name}`,
  (order: string, name: string) => `Order ${order} came today. Thank you, ${name}.`,
]

/** Mails with the number that is asked for: even ones are trained on, odd ones only evaluated. */
const mails = Array.from({ length: 80 }, (_, i) => {
  const [order, name, text] = [String(11 + i), names[i % names.length] ?? '', texts[i % texts.length]]
  return { order, text: text?.(order, name) ?? '' }
})
const training = mails.filter((_, i) => i % 2 === 0)
const heldOut = mails.filter((_, i) => i % 2 === 1)

const reward = combineRewards<string>({
  found: { weight: 0.4, reward: containsAnswer() },
  only: { weight: 0.6, reward: exactAnswer() },
})

const isAlmostPerfect = (curve: readonly number[]): boolean => (curve.at(-1) ?? 0) >= 0.95

/** Trains for some steps, or until it is good enough; the mean reward of held-out mails before the first and after each step. */
export async function learnOrderNumbers(
  model: TrainableModel,
  steps: number,
  isEnough: (curve: readonly number[]) => boolean = isAlmostPerfect,
): Promise<number[]> {
  const rollouts = (batch: typeof mails, size: number) =>
    gather(
      batch.map((mail) =>
        group(size, async () => {
          const trajectory = model.trajectory([{ role: 'user', content: `${mail.text} Which number is the order?` }])
          await trajectory.ask({ maxTokens: 12 })
          trajectory.reward = await reward(trajectory, mail.order)
          return trajectory
        }),
      ),
      { retries: 1 },
    )
  const evaluate = async () => (await model.evaluate(await rollouts(heldOut, 2))).metrics['val/reward'] ?? 0

  const curve = [await evaluate()]
  for (let step = 0; step < steps && !isEnough(curve); step += 1) {
    const batch = Array.from({ length: 20 }, (_, i) => training[(step * 20 + i) % training.length] ?? training[0]!)
    await model.train(await rollouts(batch, 8), { learningRate: 1.5e-3 })
    curve.push(await evaluate())
  }
  await model.keepBest()
  return curve
}
