/**
 * Entry of the engine host process, started by the server with an IPC channel (advanced serialization).
 *
 * Lives as long as the channel: a host whose server is gone ends at once, even in the middle of a request.
 */

import { toErrorMessage } from '#base/errors/error-message.js'
import { systemClock } from '#base/util/clock.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { createHost, type Host } from './host.js'
import { createOutbox } from './outbox.js'
import type { HostCommand } from './protocol.js'

// what this process writes is in the data directory: its owner's alone
process.umask(0o077)

const send = createOutbox({
  clock: systemClock,
  // The channel closes when the server dies; `disconnect` then ends this process.
  post: (events) => {
    if (process.connected) process.send?.(events, undefined, undefined, () => undefined)
  },
})

/** A host without a runtime answers that it cannot load a model, and why. */
function openHost(): Host {
  const exit = (): never => process.exit(0)
  try {
    return createHost({ runtime: createOrtRuntime(), clock: systemClock, send, exit })
  } catch (error) {
    return {
      handle: async ({ type }) => {
        if (type === 'load')
          send({ type: 'failed', id: null, error: toErrorMessage(error, { message: 'the engine could not start' }) })
        if (type === 'shutdown') exit()
      },
    }
  }
}

const host = openHost()

process.on('disconnect', () => process.exit(0))
process.on('message', (command: HostCommand) => {
  host.handle(command).catch((error: unknown) => {
    // Commands report their own failures; anything else is a defect, and a fresh process is the safe answer.
    process.stderr.write(
      `engine host failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    )
    process.exit(1)
  })
})
