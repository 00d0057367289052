/**
 * Decides when a running attempt is given up: a start that takes too long, silence, or work that does not move on.
 *
 * Counts ticks of the dispatcher's timer instead of reading a clock. A machine that slept, or a server too busy to run its
 * own timers, then costs no attempt anything: time in which nobody could have answered is not counted.
 */

/** Limits of an attempt, milliseconds of running time. */
export interface AttemptLimits {
  /** Time from the start of the process to its first request. */
  readonly startMs: number
  /** Time between two requests of any kind, heartbeats included. */
  readonly silenceMs: number
  /** Time between two signs of progress: a request that is no heartbeat, or a heartbeat whose counter moved. */
  readonly stallMs: number
}

/** Watch of one attempt. */
export interface AttemptWatch {
  /** Time has passed: another `tickMs`. */
  tick(): void
  /** The worker sent a request. @param progress counter of a heartbeat, or `moved` for any other request */
  note(progress: number | 'moved' | null): void
  /** Reason to give the attempt up, as a clause for the job's record; null while all is well. */
  verdict(): string | null
}

/** Starts watching an attempt whose process was started just now. */
export function watchAttempt(limits: AttemptLimits, tickMs: number): AttemptWatch {
  let hasReported = false
  let silentTicks = 0
  let idleTicks = 0
  let counter: number | null = null
  return {
    tick: () => {
      silentTicks += 1
      idleTicks += 1
    },
    note: (progress) => {
      if (progress === 'moved' || !hasReported || (progress !== null && progress !== counter)) idleTicks = 0
      if (typeof progress === 'number') counter = progress
      hasReported = true
      silentTicks = 0
    },
    verdict: () => {
      if (!hasReported) {
        return silentTicks * tickMs > limits.startMs
          ? `its worker did not report within ${toDuration(limits.startMs)} of its start`
          : null
      }
      if (silentTicks * tickMs > limits.silenceMs) {
        return `its worker was silent for ${toDuration(limits.silenceMs)}, not even a heartbeat came`
      }
      return idleTicks * tickMs > limits.stallMs
        ? `its worker answered but made no progress for ${toDuration(limits.stallMs)}`
        : null
    },
  }
}

function toDuration(timeMs: number): string {
  return timeMs >= 120_000 ? `${Math.round(timeMs / 60_000)} minutes` : `${timeMs / 1000} seconds`
}
