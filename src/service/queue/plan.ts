/**
 * In which order waiting jobs will start, and when: the rule of the queue, played forward. Pure.
 *
 * The rule, which `storage/jobs/states.ts` applies to claim the next job: a job is ready when it is its model's oldest and
 * its model trains nothing. Of the ready ones, those that were interrupted go on first; then it is the turn of the project
 * that runs the fewest jobs, of those the one that waited longest for a turn, in it of the model that did, and of its oldest
 * job. So a project or model with a hundred jobs takes turns with one that has a single job.
 */
import { maxOf } from '#base/util/lists.js'
import type { ActiveJob, QueueState, WaitingJob } from '#service/storage/jobs/queue-state.js'

export interface Forecast {
  /** 1 starts next. */
  readonly position: number
  /** Milliseconds from now; null when nothing tells how long the jobs before it take, or when no worker takes jobs. */
  readonly startsInMs: number | null
}

/** Stands in for a time that is not known, to play on; what comes after it has no time. */
const NOMINAL_MS = 60_000

interface Running {
  readonly job: WaitingJob
  readonly endMs: number
  readonly isKnown: boolean
}

/** @param workers jobs that run at once; with 0 there is an order and no times */
export function planQueue(state: QueueState, workers: number): ReadonlyMap<string, Forecast> {
  const plan = new Map<string, Forecast>()
  const slots = Math.max(1, workers)
  const modelTurns = new Map(state.modelTurns)
  const projectTurns = new Map(state.projectTurns)
  let turn = maxOf(modelTurns.values(), 0)
  let nowMs = 0
  let isKnown = workers > 0
  let running: readonly Running[] = state.active.map((job) => ({ job, ...endOf(remainingMs(job, state), 0) }))
  const waiting = new Map<string, WaitingJob[]>()
  for (const job of state.waiting) waiting.set(job.modelId, [...(waiting.get(job.modelId) ?? []), job])

  while (waiting.size > 0) {
    const next = running.length < slots ? pickNext() : null
    if (next === null) {
      const first = running.reduce((a, b) => (b.endMs < a.endMs ? b : a))
      running = running.filter((each) => each !== first)
      nowMs = Math.max(nowMs, first.endMs)
      isKnown &&= first.isKnown
      continue
    }
    const rest = (waiting.get(next.modelId) ?? []).slice(1)
    if (rest.length === 0) waiting.delete(next.modelId)
    else waiting.set(next.modelId, rest)
    plan.set(next.id, { position: plan.size + 1, startsInMs: isKnown ? nowMs : null })
    turn += 1
    modelTurns.set(next.modelId, turn)
    projectTurns.set(next.projectKey, turn)
    running = [...running, { job: next, ...endOf(usualMs(next, state), nowMs) }]
  }
  return plan

  /** There may be a thousand models: one pass, nothing made. */
  function pickNext(): WaitingJob | null {
    const busyModels = new Set(running.map(({ job }) => job.modelId))
    const busy = new Map<string, number>()
    for (const { job } of running) busy.set(job.projectKey, (busy.get(job.projectKey) ?? 0) + 1)
    let best: WaitingJob | null = null
    for (const [model, [first]] of waiting) {
      if (first === undefined || busyModels.has(model)) continue
      if (best === null || isBefore(first, best, busy)) best = first
    }
    return best
  }

  function isBefore(a: WaitingJob, b: WaitingJob, busy: ReadonlyMap<string, number>): boolean {
    if (a.attempt > 0 !== b.attempt > 0) return a.attempt > 0
    if (a.projectKey !== b.projectKey) {
      const more = (busy.get(a.projectKey) ?? 0) - (busy.get(b.projectKey) ?? 0)
      if (more !== 0) return more < 0
      const later = (projectTurns.get(a.projectKey) ?? 0) - (projectTurns.get(b.projectKey) ?? 0)
      if (later !== 0) return later < 0
    }
    const later = (modelTurns.get(a.modelId) ?? 0) - (modelTurns.get(b.modelId) ?? 0)
    return later === 0 ? a.id < b.id : later < 0
  }
}

function endOf(durationMs: number | null, startMs: number): { readonly endMs: number; readonly isKnown: boolean } {
  return { endMs: startMs + (durationMs ?? NOMINAL_MS), isKnown: durationMs !== null }
}

/** How long jobs of the model took, else of any model. */
function usualMs(job: WaitingJob, { durations }: QueueState): number | null {
  const own = durations.get(job.modelId)
  if (own !== undefined) return own
  const all = [...durations.values()]
  return all.length === 0 ? null : all.reduce((a, b) => a + b, 0) / all.length
}

/** By its own pace once it has made steps. */
function remainingMs(job: ActiveJob, state: QueueState): number | null {
  const { gradientSteps, numSequences, ranMs } = job
  if (numSequences !== null && gradientSteps > 0) {
    return (ranMs / gradientSteps) * Math.max(0, numSequences - gradientSteps)
  }
  const usual = usualMs(job, state)
  return usual === null ? null : Math.max(0, usual - ranMs)
}
