/**
 * Following a training job on the terminal: its events as lines, its outcome as the exit code.
 *
 * Used by `train --watch`, `jobs events --follow` and `jobs wait`. Ctrl-C detaches: the job goes on.
 */

import type { JsonObject } from '#base/util/json.js'
import { command } from '#contract/wire/command-words.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'
import type { CommandContext } from '../command/context.js'
import { createJobView } from '../live/job-view.js'
import { createRegion } from '../live/region.js'
import { createStepTable, type StepTable } from '../live/step-table.js'
import { InterruptedError, OutcomeError } from '../terminal/errors.js'
import { formatDuration, formatNumber, millisecondsBetween } from '../terminal/format.js'
import { describeLeftOut } from '../terminal/job-report.js'

/** Longest pause between two looks at a job, milliseconds. */
export const POLL_MS = 1000

/**
 * Prints a job's events until it ends, then its outcome.
 *
 * @param from.after id of the last event already printed
 * @param from.said warnings of the job that were printed already; default none
 * @throws {OutcomeError} `job_failed` when it failed or was cancelled; {InterruptedError} on Ctrl-C, after saying how to return
 */
export async function watchJob(
  context: CommandContext,
  client: Client,
  jobId: string,
  { after, said = [] }: { readonly after?: string | undefined; readonly said?: readonly string[] } = {},
): Promise<TrainingJob> {
  const { output, clock, signal } = context
  const startMs = clock.monotonicMs()
  const printEvent = createEventPrinter(context)
  let live: Live | null = null
  try {
    // a service that is not there, or a job, is said at once; later a lost connection is waited for
    live = await startLive(context, client, await client.trainingJobs.get(jobId, { signal }))
    const region = live
    let isLost = false
    for await (const event of client.trainingJobs.follow(jobId, {
      after,
      signal,
      pollMs: POLL_MS,
      onRetry: (error) => {
        if (!isLost) region.above(() => output.status(`connection lost, trying again: ${error.message}`))
        isLost = true
      },
    })) {
      isLost = false
      region.add(event)
      region.above(() => printEvent(event))
    }
    region.stop()
    const job = await client.trainingJobs.get(jobId, { signal })
    output.event({ object: 'training_job', ...job }, outcomeLine(job, clock.monotonicMs() - startMs))
    warnOfLeftOut(context, job)
    for (const warning of job.warnings ?? []) if (!said.includes(warning)) output.warning(warning)
    requireCompleted(job)
    return job
  } catch (error) {
    live?.stop()
    throw error instanceof InterruptedError ? error.withLines(detachedLines(jobId)) : error
  }
}

interface Live {
  add(event: TrainingEvent): void
  above(print: () => void): void
  stop(): void
}

/** Time between two pictures, milliseconds: clocks go on while nothing happens. */
const REDRAW_MS = 200
/** Jobs before this one whose rewards are charted. */
const JOBS_CHARTED = 30

/** The picture below the rows; nothing where rows do not go to a terminal. */
async function startLive(
  { io, output, clock, signal }: CommandContext,
  client: Client,
  job: TrainingJob,
): Promise<Live> {
  const { stdout } = io
  if (!stdout.isTerminal || !io.stderr.isTerminal || output.mode !== 'human') {
    return { add: () => undefined, above: (print) => print(), stop: () => undefined }
  }
  const isOver = job.status !== 'queued' && job.status !== 'running'
  const rewardsBefore = isOver ? [] : (await readRewards(client, job, signal)).map(({ reward }) => reward)
  const view = createJobView({ nowMs: clock.monotonicMs, rewardsBefore, isUnicode: stdout.isUnicode })
  const region = createRegion(stdout)
  const draw = (): void => region.draw(view.lines(stdout.width))
  const timer = isOver ? undefined : setInterval(draw, REDRAW_MS)
  return {
    add: view.add,
    above: region.above,
    stop() {
      clearInterval(timer)
      region.clear()
    },
  }
}

/** Mean rewards of the jobs before this one, by the step they made, oldest first. */
async function readRewards(
  client: Client,
  job: TrainingJob,
  signal: AbortSignal,
): Promise<readonly { readonly step: number; readonly reward: number }[]> {
  const page = await client.checkpoints.list(job.model_id, { order: 'desc', limit: JOBS_CHARTED }, { signal })
  return page.data
    .flatMap(({ step, metrics }) => {
      const reward = metrics['train/reward']
      return typeof reward === 'number' && step !== job.step ? [{ step, reward }] : []
    })
    .reverse()
}

/** Said when the job was submitted, or not left out: these trajectories train, in pieces. */
const KNOWN_REASONS = ['zero_advantage', 'unmerged']

/** Says what of the data did not train, where nobody could know before the rows were read, and when that was all of it. */
function warnOfLeftOut({ output }: CommandContext, job: TrainingJob): void {
  const { report = null } = job
  if (report === null || job.status !== 'completed') return
  const unexpected = report.left_out.filter(({ reason }) => !KNOWN_REASONS.includes(reason))
  for (const [, text] of describeLeftOut(unexpected)) output.warning(`left out: ${text}`)
  if (report.trained_tokens > 0) return
  output.warning(`nothing was trained on${job.step === null ? '' : `: step ${job.step} answers as the step before it`}`)
}

/** Most rows of losses that a person gets of a job; a machine gets them all as JSON. */
const ROWS_SHOWN = 20
/** Steps from a row to the next where nobody watches: in files and pipes. */
const UNWATCHED_STEPS = 10

/** Prints events as table lines for people and JSON Lines for machines. */
function createEventPrinter({ output, io }: CommandContext): (event: TrainingEvent) => void {
  const width = io.stdout.isTerminal ? io.stdout.width : null
  let table: StepTable | null = null
  let startedAt: string | null = null
  let total: number | null = null
  let count = 0
  let lastShown = 0
  let isMeasured = false
  return function printEvent(event) {
    const json = { object: 'training_job.event', ...event }
    const { type, data, created_at: at } = event
    startedAt ??= at
    if (type === 'training_started') {
      total = numberOf(data, 'num_sequences')
      table = createStepTable(data, width)
      output.event(json, table.header)
    } else if (type === 'gradient_step') {
      count = numberOf(data, 'gradient_step') ?? count + 1
      table ??= createStepTable(data, width)
      const since = count - lastShown
      const every = Math.max(width === null ? UNWATCHED_STEPS : 1, Math.ceil((total ?? 0) / ROWS_SHOWN))
      // rows with a loss of validation come first
      const isDue = since >= ('val/loss' in data || !isMeasured ? every : 2 * every)
      const isShown = lastShown === 0 || count === total || isDue
      if (isShown) lastShown = count
      if ('val/loss' in data) isMeasured = true
      const elapsedMs = millisecondsBetween(startedAt, at)
      output.event(json, isShown ? table.row(data, { count, total, elapsedMs }) : null)
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
  throw new OutcomeError('job_failed', code, message, { hint: command`trainyard jobs events ${job.id}` })
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
      ? millisecondsBetween(job.training_start, job.training_end)
      : elapsedMs
  const saved = job.step === null ? '' : `: checkpoint step ${job.step} saved`
  const ended = `Job ${job.id} ended${saved}, ${formatDuration(ranMs)}`
  return [ended, ...describeEqual(job), ...describeValidation(job)].join('\n')
}

/** How many answers earned what the others of their group did, where some trained all the same. */
function describeEqual({ report }: TrainingJob): readonly string[] {
  const equal = report?.left_out.find(({ reason }) => reason === 'zero_advantage')?.count ?? 0
  const total = report?.facts['answers']?.['total'] ?? 0
  if (equal === 0 || total === 0) return []
  return [
    `${equal} of ${total} answers had advantage 0: they earned what the others of their group did, and teach nothing`,
  ]
}

/** What validation rows said before the job and of the state it ended with, which need not be that of its last step. */
function describeValidation({ report }: TrainingJob): readonly string[] {
  const measured = report?.validation ?? []
  const [before] = measured
  const kept = report?.kept_gradient_step ?? null
  const after = kept === null ? measured.at(-1) : measured.find(({ gradient_step: step }) => step === kept)
  if (before === undefined || after === undefined) return []
  const loss = `Validation loss ${formatNumber(before.loss)} before, ${formatNumber(after.loss)} after`
  const stopped = report?.stopped_early === true ? ['stopped early: it no longer got better'] : []
  const best = kept === null ? [] : [`kept the state after gradient step ${kept}`]
  return [[loss, ...stopped, ...best].join('; ')]
}

function detachedLines(jobId: string): readonly string[] {
  return [
    `Detached from job ${jobId}; it keeps running.`,
    command`Follow: trainyard jobs watch ${jobId}`,
    command`Stop:   trainyard jobs cancel ${jobId}`,
  ]
}

function numberOf(data: JsonObject, name: string): number | null {
  const value = data[name]
  return typeof value === 'number' ? value : null
}
