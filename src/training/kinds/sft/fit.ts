/**
 * How well a supervised job fits its rows at its end: what `findings.ts` says of whole answers, and of a job that was cut while
 * it still learned. Counted in the report's facts, so that a job that goes on from a resume point ends with the same figures.
 */
import { type JobReport, RUNNING_SUMS } from '#training/trainer/report.js'

/** Parts that one pass is cut into where there is no other. */
const PARTS = 4

/** Steps whose losses are compared with those of so many before them: those of a pass. */
export function stepsToCompare({ epochs, steps }: { readonly epochs: number; readonly steps: number }): number {
  return Math.max(1, epochs > 1 ? steps : Math.ceil(steps / PARTS))
}

/** Counts the loss of a step. */
export function noteFit({ facts }: JobReport, loss: number, window: number): void {
  const { sum = 0, count = 0, ...means } = facts[RUNNING_SUMS] ?? {}
  const now = { sum: sum + loss, count: count + 1 }
  const { last } = means
  facts[RUNNING_SUMS] =
    now.count < window
      ? { ...means, ...now }
      : { ...(last === undefined ? {} : { before: last }), last: now.sum / now.count }
}

/**
 * Writes the figures of a job that has ended: `trained` loss of its last steps and `trained_before` of as many before them,
 * `held_out` and `held_out_before` where rows were measured, the tokens of an answer, and the share of the answers that hold what
 * the base model cannot write.
 */
export function closeFit(
  report: JobReport,
  { answerTokens, lostShare }: { readonly answerTokens: number; readonly lostShare: number },
): void {
  const { facts, validation } = report
  const { before, last } = facts[RUNNING_SUMS] ?? {}
  delete facts[RUNNING_SUMS]
  const losses = validation.map(({ loss }) => loss)
  const best = losses.length < 2 ? undefined : losses.reduce((a, b) => Math.min(a, b))
  const [previous, final] = losses.slice(-2)
  const figures = {
    answer_tokens: answerTokens,
    lost_share: lostShare === 0 ? undefined : lostShare,
    trained: last,
    trained_before: before,
    held_out: best,
    // of a job that did not end at its best, nothing fell any more
    held_out_before: best === undefined ? undefined : final === best ? previous : best,
  }
  facts['fit'] = Object.fromEntries(
    Object.entries(figures).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}
