/**
 * The process of an engine node (`plugins/engine-nodes/node/main.ts`), as the command that starts it sees it. Knows nothing of
 * what it does.
 */
import { fromErrorMessage } from '#base/errors/error-message.js'
import { AppError } from '#base/errors/errors.js'
import { endOf, startChild } from '#base/processes/child.js'
import { withHugePages, withMemoryGivenBack } from '#base/processes/malloc-tunables.js'
import { ENGINE_FLAGS } from '#service/processes/engine-link.js'
import type { NodeCommand, NodeEvent, NodeStart } from './node/protocol.js'

export type EngineNodeEvent = Exclude<NodeEvent, { readonly type: 'failed' | 'stopped' }>

export interface EngineNodeOptions {
  readonly start: Omit<NodeStart, 'type'>
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly onEvent: (event: EngineNodeEvent) => void
}

export interface EngineNode {
  /** Resolves when it was stopped; rejects with why it cannot go on. */
  readonly ended: Promise<void>
  /** Takes nothing new; what runs has so long to end. */
  stop(deadlineMs: number): void
}

/** What it may take to end behind its own deadline: the server is told, processes end. */
const EXIT_MS = 10_000

export function startEngineNode({ start, environment, onEvent }: EngineNodeOptions): EngineNode {
  const child = startChild('plugins/engine-nodes/node/main.js', {
    environment: withMemoryGivenBack(withHugePages(environment)),
    // vLLM is a Python program, and the node calls its server; what it starts itself is given no proxies
    needs: ['computing', 'python', 'calling'],
    flags: ENGINE_FLAGS,
    serialization: 'advanced',
  })
  const send = (command: NodeCommand): void => {
    if (child.connected) child.send(command, () => undefined)
  }
  let isStopping = false
  const ended = new Promise<void>((resolve, reject) => {
    child.on('message', (event: NodeEvent) => {
      if (event.type === 'failed') reject(fromErrorMessage(event.error))
      else if (event.type === 'stopped') resolve()
      else onEvent(event)
    })
    child.once('exit', (code, signal) => {
      if (isStopping) resolve()
      else reject(new AppError('internal', 'engine_node_died', `the process of the engine node ${endOf(code, signal)}`))
    })
  })
  send({ type: 'start', ...start })
  return {
    ended,
    stop: (deadlineMs) => {
      isStopping = true
      send({ type: 'stop', deadlineMs })
      setTimeout(() => child.kill('SIGKILL'), deadlineMs + EXIT_MS).unref()
    },
  }
}
