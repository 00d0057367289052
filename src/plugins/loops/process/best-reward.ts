/**
 * The most that an answer can earn by a grader, where that is known: who earns it has nothing left to learn.
 */
import { readFormula } from '#sdk/graders/formula.js'
import type { Grader, SingleGrader } from '#sdk/graders/spec.js'

/** Parts of a formula whose ends are tried together, 2 to the power of them. */
const MOST_PARTS = 10

/** @returns null where a program or a server decides, or nobody can say */
export function bestReward(grader: Grader): number | null {
  if (grader.type !== 'multi') return rangeOf(grader)?.[1] ?? null
  const parts = [...grader.graders].map(([key, part]) => [key, rangeOf(part)] as const)
  if (parts.length > MOST_PARTS || parts.some(([, range]) => range === null)) return null
  const { compute } = readFormula(grader.formula)
  let best = Number.NEGATIVE_INFINITY
  // a formula that only rises, or only falls, with each part is at its most where all stand at an end
  for (let ends = 0; ends < 2 ** parts.length; ends++) {
    const scores = new Map(parts.map(([key, range], at) => [key, range?.[(ends >> at) & 1] ?? 0]))
    const reward = compute(scores)
    if (Number.isFinite(reward)) best = Math.max(best, reward)
  }
  return Number.isFinite(best) ? best : null
}

function rangeOf(grader: SingleGrader): readonly [number, number] | null {
  if (grader.type === 'score_model') return grader.range
  return ['string_check', 'text_similarity', 'label_model'].includes(grader.type) ? [0, 1] : null
}
