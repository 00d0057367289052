/**
 * A loop from where others left it to its end: evaluate, then step by step sample, grade, train and evaluate. What a later
 * process needs is reported at each border of phases; what lies between two of them it does again, with the same seeds.
 */
import { AppError } from '#base/errors/errors.js'
import { ApiError } from '#sdk/client/errors.js'
import type { LoopStart } from '../messages.js'
import { evaluateFirst } from './evaluating.js'
import type { Link } from './link.js'
import { openRun, say } from './run.js'
import { runStep } from './step.js'
import { LoopFailedError } from './training.js'

/** @throws {LoopStoppedError} where it pauses or is over; anything else: another process goes on */
export async function runLoop(start: LoopStart, link: Link): Promise<void> {
  try {
    const run = await openRun(start, link)
    if (start.evaluations.length === 0) await evaluateFirst(run)
    for (let step = start.step; step < start.spec.steps; step += 1) await runStep(run, step)
    await link.report({ events: [say('info', 'Loop completed')], end: { error: null } })
  } catch (error) {
    const known = toEnd(error)
    if (known === null) throw error
    await link.report({ events: [say('error', known.message, { code: known.code })], end: { error: known } })
  }
}

/** What ends the loop; null: trying again may help. */
function toEnd(error: unknown): { readonly code: string; readonly message: string } | null {
  if (error instanceof LoopFailedError) return { code: error.code, message: error.message }
  if (!(error instanceof AppError)) return null
  if (error.code === 'model_not_found') return { code: 'model_deleted', message: 'the model was deleted' }
  const isRefusal = error instanceof ApiError && error.status < 500 && ![408, 409, 429].includes(error.status)
  if (!isRefusal && error.category !== 'invalid_request') return null
  return { code: error.code, message: error.hint === undefined ? error.message : `${error.message}; ${error.hint}` }
}
