/**
 * How fast an attempt makes gradient steps: what the end of its job is predicted from.
 *
 * The first step of an attempt loads weights and grows memory; it counts only until there is a second.
 */
import type { Clock } from '#base/util/clock.js'
import type { TrainingEvent } from '#training/trainer/job.js'
import type { Pace } from './wire-report.js'

export interface PaceMeter {
  /** Takes note of an event just made. */
  note(event: TrainingEvent): void
  read(): Pace
}

/** Starts measuring now. */
export function createPaceMeter(clock: Clock): PaceMeter {
  let fromMs = clock.monotonicMs()
  let lastMs = fromMs
  let count = 0
  let isFirstLeftOut = false
  return {
    note: ({ type }) => {
      const nowMs = clock.monotonicMs()
      if (type === 'training_started') {
        fromMs = nowMs
        return
      }
      if (count === 1 && !isFirstLeftOut) {
        isFirstLeftOut = true
        count = 0
        fromMs = lastMs
      }
      count += 1
      lastMs = nowMs
    },
    read: () => ({ steps: count, seconds: (lastMs - fromMs) / 1000 }),
  }
}
