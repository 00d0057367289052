/**
 * Entry point of a loop's process: one attempt at one loop. It ends when the loop does or pauses, and with its server.
 *
 * The loop goes on where others left it: evaluate, then step by step sample, grade, train and evaluate. What a later process needs
 * is reported at each border of phases; what lies between two of them it does again, with the same seeds.
 */
import { AppError } from '#base/errors/errors.js'
import { ApiError } from '#sdk/client/errors.js'
import type { LoopStart, ToProcess } from '../messages.js'
import { evaluateFirst } from './evaluating.js'
import { createLink, LoopStoppedError } from './link.js'
import { openRun, say } from './run.js'
import { runStep } from './step.js'
import { LoopFailedError } from './training.js'

const link = createLink()
process.on('disconnect', () => process.exit(0))
process.on('message', (message: ToProcess) => {
  if (message.type === 'answer') link.take(message)
  else void run(message)
})

async function run(start: Extract<ToProcess, { readonly type: 'start' }>): Promise<void> {
  try {
    await runLoop(start)
    process.exit(0)
  } catch (error) {
    if (error instanceof LoopStoppedError) process.exit(0)
    await link.fail(error)
    process.exit(1)
  }
}

/** @throws {LoopStoppedError} where it pauses or is over; anything else: another process goes on */
async function runLoop(start: LoopStart): Promise<void> {
  try {
    const run = await openRun(start, link)
    if (!start.isEvaluated) await evaluateFirst(run)
    let step = start.step
    let learned: Awaited<ReturnType<typeof runStep>> = null
    while (step < start.spec.steps && learned === null) learned = await runStep(run, step++)
    const said = learned === null ? say('info', 'Loop completed') : say('info', learned.message, { code: learned.code })
    await link.report({ events: [said], end: { error: null } })
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
