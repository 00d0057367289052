/**
 * Whether a model that answers with labels knows which one belongs where, or only which ones there are.
 *
 * Chance is what the same answers would earn, had they been given to the prompts in any order: Σ over labels of the share of answers that are it
 * times the share of prompts that want it, the expected agreement of Cohen's kappa (1960). Knows no model.
 */

import { meanInterval } from '#base/statistics/interval.js'
import { formatNumber } from '#cli/terminal/format.js'
import type { Example } from './examples.js'

/** Most labels of a task: more different answers are no labels. */
const MAX_LABELS = 12
/** Least share of the answers that are one of the labels, fewest answers and prompts that say something. */
const [MIN_COVERED, MIN_ANSWERS, MIN_PROMPTS] = [0.8, 32, 12]

/** One sentence where the answers are right no more often than by chance; none where nothing can be said. */
export function sayOfGuessing(examples: readonly Example[]): readonly string[] {
  const wanted = examples.map(({ row }) => String(row['answer'] ?? '').trim())
  const said = examples.map(({ answer }) => answer.trim())
  const labels = new Set(wanted)
  const prompts = new Map<unknown, number[]>()
  for (const [i, { row }] of examples.entries()) {
    prompts.set(row, [...(prompts.get(row) ?? []), said[i] === wanted[i] ? 1 : 0])
  }
  const isSmall = examples.length < MIN_ANSWERS || prompts.size < MIN_PROMPTS
  if (isSmall || labels.has('') || labels.size < 2 || labels.size > MAX_LABELS) return []
  const covered = said.filter((text) => labels.has(text)).length / said.length
  if (covered < MIN_COVERED) return []
  const share = (texts: readonly string[], label: string): number =>
    texts.filter((text) => text === label).length / texts.length
  const chance = [...labels].reduce((sum, label) => sum + share(said, label) * share(wanted, label), 0)
  const right = [...prompts.values()].map((hits) => hits.reduce((a, b) => a + b, 0) / hits.length)
  const [least = 0, most = 0] = meanInterval(right, [0, 1]) ?? []
  const mean = right.reduce((sum, each) => sum + each, 0) / right.length
  if (chance < least || most < chance) return []
  return [
    `right as often as by guessing: ${formatNumber(mean)} of the answers (95% between ${formatNumber(least)} and ${formatNumber(most)}), where the same answers in any order would earn ${formatNumber(chance)}: which of the ${labels.size} answers belongs where is not learned; more examples and passes (train sft --epochs) help where the prompt shows it, else let the answer work it out before its result, or take a larger base model`,
  ]
}
