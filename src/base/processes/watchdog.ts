/**
 * Tells a frozen child process from a slow one.
 *
 * Signs of life are a message, processor time used, and a process that the system lets wait for processor or disk. A busy
 * machine, a long computation or swapping therefore never count as frozen; SIGSTOP and a deadlock in native code do. Time
 * counts only while our own timer runs: a server that was stopped or a machine that was suspended blames nobody.
 */
import { readFileSync } from 'node:fs'

export interface WatchdogOptions {
  /** Silence without any sign of life before the child counts as frozen, milliseconds. */
  readonly frozenMs: number
  /** Silence of a child that computes all the while, milliseconds. */
  readonly stuckMs: number
  /** How often it is looked at. Default 1000 ms. */
  readonly tickMs?: number
  /** Whether anybody waits for the child: it is left alone while nobody does. */
  readonly isWaitedFor: () => boolean
  /** Asks the child for a message. */
  readonly ping: () => void
  /** Called once. @param reason what was seen, as the end of a sentence about the child */
  readonly onFrozen: (reason: string) => void
}

export interface Watchdog {
  /** A message came. */
  heard(): void
  stop(): void
}

/** What the system says of a process. */
export interface ProcessSigns {
  /** Processor time it has used, in the system's ticks. */
  readonly cpuTicks: number
  /** It runs, or waits for a processor or a disk. */
  readonly isRunnable: boolean
}

/** Starts watching. @param pid of the child */
export function createWatchdog(pid: number, options: WatchdogOptions): Watchdog {
  const tickMs = options.tickMs ?? 1000
  let idleMs = 0
  let silentMs = 0
  let lastTicks = -1
  let lastMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    const elapsedMs = Math.min(nowMs - lastMs, 2 * tickMs)
    lastMs = nowMs
    if (!options.isWaitedFor()) {
      idleMs = 0
      silentMs = 0
      return
    }
    options.ping()
    const signs = readSigns(pid)
    // Where the system does not say, only messages count, and the longer deadline.
    const isAlive = signs === null || signs.isRunnable || signs.cpuTicks !== lastTicks
    lastTicks = signs?.cpuTicks ?? -1
    idleMs = isAlive ? 0 : idleMs + elapsedMs
    silentMs += elapsedMs
    if (idleMs < options.frozenMs && silentMs < options.stuckMs) return
    clearInterval(timer)
    options.onFrozen(
      idleMs >= options.frozenMs
        ? `showed no sign of life for ${Math.round(idleMs / 1000)} s`
        : `answered nothing for ${Math.round(silentMs / 1000)} s`,
    )
  }, tickMs)
  timer.unref()
  return {
    heard: () => {
      idleMs = 0
      silentMs = 0
    },
    stop: () => clearInterval(timer),
  }
}

/** Reads `/proc/<pid>/stat`; null where there is none. */
export function readSigns(pid: number): ProcessSigns | null {
  try {
    return parseSigns(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return null
  }
}

/** Fields after the name, which may hold spaces and brackets: state, then eleven others, then user and system time. */
export function parseSigns(stat: string): ProcessSigns {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const state = fields[0] ?? ''
  return {
    cpuTicks: Number(fields[11]) + Number(fields[12]),
    isRunnable: state === 'R' || state === 'D' || state === 't',
  }
}
