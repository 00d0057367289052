/** Both ways to a host that there are: a child process, and the host in this process. */
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createHost } from '#inference/host/host.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { type EngineLinkListener, openProcessLink } from '#service/processes/engine-link.js'
import { until } from '../../support/until.js'
import { engineLinkConformance } from './conformance/engine-link.js'

engineLinkConformance('a child process', (listener) => openProcessLink(listener, { environment: process.env }))

/** Shows that nothing above a link needs a process, a copy of messages or a module to run. */
engineLinkConformance('a host in this process', (listener: EngineLinkListener) => {
  let hasEnded = false
  const end = (reason: string): void => {
    if (hasEnded) return
    hasEnded = true
    setImmediate(() => listener.ended(reason))
  }
  const host = createHost({
    runtime: createOrtRuntime(),
    clock: systemClock,
    send: (event) => {
      if (!hasEnded) listener.received([event])
    },
    exit: () => end('left this process'),
  })
  return {
    pid: null,
    send: (command) => {
      if (hasEnded) return
      turn(command)
        .then((each) => host.handle(each))
        .catch((error: unknown) => end(`failed: ${String(error)}`))
    },
    kill: () => end('was ended by this process'),
  }
})

describe('a child process that cannot be had', () => {
  it('has ended, and says how', async () => {
    const ends: string[] = []
    const link = openProcessLink(
      { received: () => undefined, ended: (reason) => ends.push(reason) },
      { environment: process.env, entryPath: 'no/such/module.js' },
    )
    expect(ends).toEqual([])
    link.send({ type: 'ping', id: 'p' })
    await until(() => ends.length > 0, 'its end')
    link.kill()
    expect(ends).toEqual([expect.stringMatching(/^(ended with exit code 1|could not be started: .+)$/)])
  })
})
