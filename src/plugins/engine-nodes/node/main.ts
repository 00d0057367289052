/**
 * Entry of an engine node's process, started by `trainyard engine-node` with an IPC channel. Ends with its parent.
 */
import { toErrorMessage } from '#base/errors/error-message.js'
import { type EngineNodeProcess, startEngineNode } from './engine-node.js'
import type { NodeCommand, NodeEvent } from './protocol.js'

// what this process writes is its owner's alone
process.umask(0o077)

let node: Promise<EngineNodeProcess> | null = null

function tell(event: NodeEvent): void {
  const isLast = event.type === 'failed' || event.type === 'stopped'
  if (process.connected) process.send?.(event, undefined, undefined, () => isLast && process.exit(0))
  else if (isLast) process.exit(0)
}

process.on('disconnect', () => process.exit(0))
process.on('message', (command: NodeCommand) => {
  if (command.type === 'start') {
    node = startEngineNode(command, tell)
    node.catch((error: unknown) => tell({ type: 'failed', error: toErrorMessage(error) }))
    return
  }
  const stopped = node === null ? Promise.resolve() : node.then((started) => started.stop(command.deadlineMs))
  stopped.then(
    () => tell({ type: 'stopped' }),
    () => process.exit(1),
  )
})
