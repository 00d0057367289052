/**
 * Signs of life of a process, as Linux tells them.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { createWatchdog, parseSigns, readSigns } from '#base/processes/watchdog.js'

describe('signs of a process', () => {
  it.each([
    ['42 (node) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 11 0 99', { cpuTicks: 12, isRunnable: false }],
    ['42 (a) R (b)) T 1 42 42 0 -1 4194560 100 0 0 0 0 0 0 0 20 0', { cpuTicks: 0, isRunnable: false }],
    ['42 (node) D 1 42 42 0 -1 4194560 100 0 0 0 1 0 0 0 20 0', { cpuTicks: 1, isRunnable: true }],
  ])('%s', (stat, expected) => {
    expect(parseSigns(stat)).toEqual(expected)
  })

  it('of a process that is not there are none', () => {
    expect(readSigns(2 ** 22 + 1)).toBeNull()
  })
})

describe.skipIf(process.platform !== 'linux')('watchdog', () => {
  /** Watches a child for so many of its own ticks; resolves with the reason, or null. */
  async function watch(script: string, ticks: number, change: (pid: number) => void = () => undefined) {
    const child = spawn(process.execPath, ['-e', `fs.writeSync(1, 'up'); ${script}`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const pid = child.pid ?? 0
    // while it starts, it may wait for threads that get no core
    await once(child.stdout, 'data')
    change(pid)
    let pings = 0
    const reason = await new Promise<string | null>((resolve) => {
      const watchdog = createWatchdog(pid, {
        frozenMs: 200,
        stuckMs: 1e9,
        tickMs: 20,
        isWaitedFor: () => true,
        ping: () => {
          pings += 1
          if (pings < ticks) return
          watchdog.stop()
          resolve(null)
        },
        onFrozen: resolve,
      })
    })
    child.kill('SIGKILL')
    return reason
  }

  it('a stopped process is frozen', async () => {
    const stop = (pid: number) => process.kill(pid, 'SIGSTOP')
    expect(await watch('setInterval(() => {}, 5)', 1000, stop)).toMatch(/no sign of life/)
  })

  it('a process that computes without a word is not', async () => {
    expect(await watch('for (;;);', 60)).toBeNull()
  })
})
