/**
 * Following a training job on the terminal: its events as lines, its outcome as the exit code.
 *
 * Used by `train --watch`, `jobs events --follow` and `jobs wait`. Ctrl-C detaches: the job goes on.
 */
import type { Client } from '#api/client/client.js'
import type { TrainingEvent, TrainingJob } from '#api/wire/training-jobs.js'
import type { JsonObject } from '#base/util/json.js'
import type { CommandContext } from '../command/context.js'
import { InterruptedError, OutcomeError } from '../command/errors.js'
import { formatClock, formatDuration, formatNumber } from './format.js'

/** Longest pause between two looks at a job, milliseconds. */
export const POLL_MS = 1000

/**
 * Prints a job's events until it ends, then its outcome.
 *
 * @param after id of the last event already printed
 * @throws {OutcomeError} `job_failed` when it failed or was cancelled; {InterruptedError} on Ctrl-C, after saying how to return
 */
export async function watchJob(
  context: CommandContext,
  client: Client,
  jobId: string,
  after?: string,
): Promise<TrainingJob> {
  const { output, clock, signal } = context
  const startMs = clock.monotonicMs()
  const printer = createEventPrinter(context, startMs)
  const gradientNorms: number[] = []
  try {
    for await (const event of client.trainingJobs.follow(jobId, {
      after,
      signal,
      pollMs: POLL_MS,
      onRetry: (error) => output.status(`connection lost, trying again: ${error.message}`),
    })) {
      printer(event)
      const norm = event.type === 'gradient_step' ? event.data['grad_norm'] : null
      if (typeof norm === 'number') gradientNorms.push(norm)
    }
    const job = await client.trainingJobs.get(jobId, { signal })
    output.event({ object: 'training_job', ...job }, outcomeLine(job, clock.monotonicMs() - startMs))
    warnOfClipping(context, gradientNorms)
    requireCompleted(job)
    return job
  } catch (error) {
    throw error instanceof InterruptedError ? error.withLines(detachedLines(jobId)) : error
  }
}

/** Norms that stay this far above what they are cut to mean that direction is all that is left of a step. */
const HIGH_NORM = 5

/** Says when every gradient was far too large: the rate is, too, or the data are not what was meant. */
function warnOfClipping({ output }: CommandContext, norms: readonly number[]): void {
  if (norms.length < 3 || norms.some((norm) => norm < HIGH_NORM)) return
  const [least, most] = [Math.min(...norms), Math.max(...norms)].map(formatNumber)
  output.warning(
    `the gradient's norm was ${least} to ${most} and cut in every step; a lower --learning-rate is steadier`,
  )
}

/** Prints events as table lines for people and JSON Lines for machines. */
export function createEventPrinter(context: CommandContext, startMs: number): (event: TrainingEvent) => void {
  const { output, clock } = context
  let total: number | null = null
  let count = 0
  return function printEvent(event) {
    const json = { object: 'training_job.event', ...event }
    if (event.type === 'training_started') {
      const sequences = event.data['num_sequences']
      total = typeof sequences === 'number' ? sequences : null
      output.event(json, formatRow(['step', 'loss', 'grad norm', 'entropy', 'tokens/s', 'time']))
    } else if (event.type === 'gradient_step') {
      count = numberOf(event.data, ['gradient_step']) ?? count + 1
      output.event(json, stepLine(event.data, count, total, clock.monotonicMs() - startMs))
    } else {
      output.event(json, null)
    }
  }
}

/** One line per event for a list that is not followed. */
export function describeEvent(event: TrainingEvent): string {
  if (event.type === 'training_failed') return String(event.data['error_message'] ?? '')
  return Object.entries(event.data)
    .filter((entry): entry is [string, number] => typeof entry[1] === 'number')
    .map(([name, value]) => `${name}=${formatNumber(value)}`)
    .join(' ')
}

/** Exit 7 for a job that did not complete. */
export function requireCompleted(job: TrainingJob): void {
  if (job.status === 'completed') return
  const reason = job.error_message === null ? '' : `: ${job.error_message}`
  const code = job.error_code ?? (job.status === 'cancelled' ? 'job_cancelled' : 'job_failed')
  const verb = job.status === 'cancelled' ? 'was cancelled' : `is ${job.status}`
  const message = job.status === 'failed' ? `job ${job.id} failed${reason}` : `job ${job.id} ${verb}${reason}`
  throw new OutcomeError('job_failed', code, message, { hint: `trainyard jobs events ${job.id}` })
}

/** `checkpoint step 13`, or why there is none. */
export function describeOutcome(job: TrainingJob): string {
  if (job.status === 'completed') return job.step === null ? 'no checkpoint' : `checkpoint step ${job.step}`
  return job.error_message ?? ''
}

/** Progress of a job: `2/4`, or nothing before it starts. */
export function describeProgress(job: TrainingJob): string | null {
  if (job.num_sequences === null) return null
  return `${job.num_gradient_steps}/${job.num_sequences}`
}

function outcomeLine(job: TrainingJob, elapsedMs: number): string | null {
  if (job.status !== 'completed') return null
  const ranMs =
    job.training_start !== null && job.training_end !== null
      ? Date.parse(job.training_end) - Date.parse(job.training_start)
      : elapsedMs
  const saved = job.step === null ? '' : `: checkpoint step ${job.step} saved`
  return `Job ${job.id} ended${saved}, ${formatDuration(ranMs)}`
}

function detachedLines(jobId: string): readonly string[] {
  return [
    `Detached from job ${jobId}; it keeps running.`,
    `Follow: trainyard jobs events ${jobId} --follow`,
    `Stop:   trainyard jobs cancel ${jobId}`,
  ]
}

function stepLine(data: JsonObject, count: number, total: number | null, elapsedMs: number): string {
  const show = (names: readonly string[]) => {
    const value = numberOf(data, names)
    return value === null ? '-' : formatNumber(value)
  }
  const rate = numberOf(data, ['tokens_per_second'])
  return formatRow([
    total === null ? String(count) : `${count}/${total}`,
    show(['loss', 'policy_loss']),
    show(['grad_norm']),
    show(['entropy']),
    rate === null ? '-' : Math.round(rate).toLocaleString('en-US'),
    formatClock(elapsedMs),
  ])
}

function formatRow(cells: readonly string[]): string {
  const widths = [9, 11, 12, 10, 11, 6]
  return `  ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('')}`.trimEnd()
}

function numberOf(data: JsonObject, names: readonly string[]): number | null {
  for (const name of names) {
    const value = data[name]
    if (typeof value === 'number') return value
  }
  return null
}
