/**
 * When loops are looked at, and for how long a server has one.
 */
import type { ToolTimes } from './tools.js'

export interface LoopTiming {
  /** Between two looks for loops that want a process. */
  readonly pollMs: number
  /** A server that says nothing for so long has its loops taken. */
  readonly leaseMs: number
  /** Before a lost process is started again; twice as long each time. */
  readonly retryMs: number
  /** Of calls of tools; absent: those of Azure's service. */
  readonly tools?: ToolTimes
}

export const DEFAULT_LOOP_TIMING: LoopTiming = { pollMs: 1000, leaseMs: 30_000, retryMs: 1000 }
