/**
 * Entry point of a loop's process: one attempt at one loop. It ends when the loop does or pauses, and with its server.
 */
import type { ToProcess } from '../messages.js'
import { createLink, LoopStoppedError } from './link.js'
import { runLoop } from './run-loop.js'

const link = createLink()
process.on('disconnect', () => process.exit(0))
process.on('message', (message: ToProcess) => {
  if (message.type === 'answer') link.take(message)
  else void run(message)
})

async function run(start: Extract<ToProcess, { readonly type: 'start' }>): Promise<void> {
  try {
    await runLoop(start, link)
    process.exit(0)
  } catch (error) {
    if (error instanceof LoopStoppedError) process.exit(0)
    await link.fail(error)
    process.exit(1)
  }
}
