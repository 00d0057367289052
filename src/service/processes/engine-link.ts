/**
 * The way to one engine host: commands go out, what each step says comes back in order, and its end is told once.
 *
 * What commands and events mean is not known here. {@link openProcessLink} leads to a child process of this machine; any other
 * way passes the same suite (`test/integration/engine-host/conformance/engine-link.ts`).
 */
import type { Environment } from '#base/environment.js'
import { startChild } from '#base/processes/child.js'
import { withHugePages, withMemoryGivenBack } from '#base/processes/malloc-tunables.js'
import type { HostCommand, HostEvents } from '#inference/host/protocol.js'

export interface EngineLink {
  /** Process id of the host; null where it is no process of this machine. */
  readonly pid: number | null
  /** Sends a command. One that a dying host no longer reads is lost: the end is told of. */
  send(command: HostCommand): void
  /** Ends the host at once, in the middle of what it does. Harmless after its end. */
  kill(): void
}

/** Called later than {@link OpenEngineLink} returns. */
export interface EngineLinkListener {
  /** What one step of the host said; in order, and not after the end. */
  received(events: HostEvents): void
  /** The host is gone: called once. @param reason as the end of a sentence about the host */
  ended(reason: string): void
}

/** Starts a host, or finds one, that has loaded no model yet. A host that cannot be had has ended. */
export type OpenEngineLink = (listener: EngineLinkListener) => EngineLink

/**
 * V8 flags of an engine host: one thread for collecting garbage and compiling code in the background. By default there are four, no
 * less urgent than the model's own, and a thread that only begins (a first long text, a first grammar) sets them all to work.
 *
 * And no full collection before there are 64 MB to look after: V8 counts what a step returns, megabytes in arrays of their own,
 * against a heap of ten, and marked all of it every third step of 16 streams; scavenging is enough for them. More room, here or for
 * what is young, saves no processor time that can be measured, and is memory that stays.
 */
export const ENGINE_FLAGS = ['--v8-pool-size=1', '--initial-old-space-size=64', '--max-semi-space-size=4']

export interface ProcessLinkOptions {
  /** Of this process, of which the child is given what it uses. */
  readonly environment: Environment
  /** Module the child runs; default: the built engine host. */
  readonly entryPath?: string | undefined
}

export function openProcessLink(
  listener: EngineLinkListener,
  { environment, entryPath = 'inference/host/main.js' }: ProcessLinkOptions,
): EngineLink {
  let hasEnded = false
  const end = (reason: string): void => {
    if (hasEnded) return
    hasEnded = true
    listener.ended(reason)
  }
  let child: ReturnType<typeof startChild>
  try {
    child = startChild(entryPath, {
      environment: withMemoryGivenBack(withHugePages(environment)),
      needs: ['computing'],
      flags: ENGINE_FLAGS,
      serialization: 'advanced',
    })
  } catch (error) {
    setImmediate(end, `could not be started: ${error instanceof Error ? error.message : String(error)}`)
    return { pid: null, send: () => undefined, kill: () => undefined }
  }
  child.on('message', (events: HostEvents) => {
    if (!hasEnded) listener.received(events)
  })
  child.once('exit', (code, signal) => end(signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`))
  child.once('error', (error) => end(error.message))
  return {
    pid: child.pid ?? null,
    send: (command) => {
      // a failed send means that the host is dying, which its exit tells
      if (child.connected) child.send(command, () => undefined)
    },
    kill: () => {
      child.kill('SIGKILL')
    },
  }
}
