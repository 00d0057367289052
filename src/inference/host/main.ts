/**
 * Entry of the engine host process, started by the server with an IPC channel (advanced serialization).
 *
 * Lives as long as the channel: a host whose server is gone ends at once, even in the middle of a request.
 */

import { systemClock } from '#base/util/clock.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { createHost } from './host.js'
import type { HostCommand, HostEvent } from './protocol.js'

// what this process writes is in the data directory: its owner's alone
process.umask(0o077)

const host = createHost({
  runtime: createOrtRuntime(),
  clock: systemClock,
  send: (event: HostEvent) => {
    // The channel closes when the server dies; `disconnect` then ends this process.
    if (process.connected) process.send?.(event, undefined, undefined, () => undefined)
  },
  exit: () => process.exit(0),
})

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
