/**
 * Follows a loop to its end or its pause: each event once, in order.
 */
import type { CommandContext } from '#cli/command/context.js'
import { InterruptedError, OutcomeError } from '#cli/terminal/errors.js'
import { command } from '#contract/wire/command-words.js'
import type { Loop } from '../wire.js'
import type { LoopCalls } from './loop-calls.js'

const FOLLOWED: readonly Loop['status'][] = ['queued', 'running']

/** @throws {OutcomeError} for a loop that failed or was cancelled */
export async function watchLoop(
  { output }: Pick<CommandContext, 'output'>,
  calls: LoopCalls,
  id: string,
): Promise<void> {
  try {
    const loop = await follow({ output }, calls, id)
    if (loop.status === 'failed' || loop.status === 'cancelled') {
      const { code = `loop_${loop.status}`, message = `loop ${id} is ${loop.status}` } = loop.error ?? {}
      throw new OutcomeError('job_failed', code, message)
    }
    if (loop.status === 'paused') output.hint(command`trainyard loops resume ${id}`)
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error
    throw error.withLines([
      'Detached: the server goes on with the loop.',
      command`Watch:  trainyard loops watch ${id}`,
      command`Stop:   trainyard loops cancel ${id}`,
    ])
  }
}

async function follow({ output }: Pick<CommandContext, 'output'>, calls: LoopCalls, id: string): Promise<Loop> {
  let after: string | undefined
  for (;;) {
    // its state first: what happened before it ended is among the events then
    const loop = await calls.get(id)
    for (;;) {
      const page = await calls.events(id, { after, limit: 100 })
      for (const event of page.data) {
        output.event(event, event.level === 'info' ? event.message : `${event.level}: ${event.message}`)
        after = event.id
      }
      if (!page.has_more) break
    }
    if (!FOLLOWED.includes(loop.status)) return loop
    await calls.pause()
  }
}
