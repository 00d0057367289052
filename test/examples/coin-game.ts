/**
 * A game of turns: in which hand is the coin? The other player has a habit, and only who notices it wins every turn.
 *
 * The environment is written by hand: it hides the coin, says after each turn where it was, and scores each turn. Players of
 * the evaluation are never trained on.
 */
import { type Environment, gather, group, play, type TrainableModel } from 'trainyard/rl'

const training = ['Anna', 'Tom', 'Mia', 'Omar']
const heldOut = ['Lena', 'Ravi']
const TURNS = 2

function coinGame(player: string): Environment {
  const question = 'Is it left? Say yes or no.'
  let turn = 0
  return {
    reset: () => ({ messages: [{ role: 'user', content: `${player} hides a coin. ${question}` }] }),
    step({ content }) {
      // The habit: never twice in the same hand, the right one first.
      const isLeft = turn % 2 === 1
      turn += 1
      const isHit = content.trim().toLowerCase().replace(/\W$/, '') === (isLeft ? 'yes' : 'no')
      const reward = isHit ? 1 / TURNS : 0
      if (turn === TURNS) return { reward, isDone: true }
      const told = `It was ${isLeft ? 'left' : 'right'}.`
      return { reward, messages: [{ role: 'user', content: `${told} ${question}` }] }
    },
  }
}

const isAlmostPerfect = (curve: readonly number[]): boolean => (curve.at(-1) ?? 0) >= 0.95

/** Trains for some steps, or until it is good enough; the mean reward of games against held-out players before the first and after each step. */
export async function learnTheHabit(
  model: TrainableModel,
  steps: number,
  isEnough: (curve: readonly number[]) => boolean = isAlmostPerfect,
): Promise<number[]> {
  const games = (players: readonly string[], size: number) =>
    gather(
      players.map((player) => group(size, () => play(model, coinGame(player), { maxTurns: TURNS, maxTokens: 4 }))),
      { retries: 1 },
    )
  const evaluate = async () => (await model.evaluate(await games(heldOut, 32))).metrics['val/reward'] ?? 0

  const curve = [await evaluate()]
  for (let step = 0; step < steps && !isEnough(curve); step += 1) {
    await model.train(await games(training, 12), { learningRate: 1.5e-3 })
    curve.push(await evaluate())
  }
  return curve
}
