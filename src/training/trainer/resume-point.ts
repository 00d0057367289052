/**
 * Where a job that lost its worker goes on: the learner's state and the job's progress between two gradient steps, as one file.
 *
 * A safetensors file of the learner (`learner/state-files.ts`), with its mark `best` where the job keeps its best state, and the
 * progress as JSON in its metadata. Float32 and JSON numbers are read back bit for bit. There is no generator state: the order of
 * data and every random choice follow from the job's seed and the number of steps made.
 */
import { CheckpointError } from '#base/errors/errors.js'
import type { FileContent } from '#base/util/file-content.js'
import { decodeSafetensors } from '#model/weights/safetensors.js'
import { decisionOf, type JobDecisions } from './decisions.js'
import type { Learner, SavedState } from './learner/learner.js'
import { type BestState, createProgress, type JobProgress } from './progress.js'
import { type JobReport, restoreReport } from './report.js'

const FORMAT = 'trainyard.resume'

/** A decoded resume point. */
export interface ResumePoint {
  readonly state: SavedState
  readonly progress: JobProgress
}

/** What of the progress is JSON; tensors stand beside it. */
interface StoredProgress {
  readonly stepCount: number
  readonly totals: [string, { sum: number; count: number }][]
  readonly best: BestState | null
  /** Absent in points of versions that asked the report. */
  readonly decisions?: JobDecisions
  readonly report: Omit<JobReport, 'seconds'>
}

/** Has the learner write its state and the progress; equal states give equal bytes, whatever time they took. */
export function encodeResumePoint(learner: Learner, progress: JobProgress): Promise<FileContent> {
  const { seconds: _, ...report } = progress.report
  const stored: StoredProgress = {
    stepCount: progress.stepCount,
    totals: [...progress.totals],
    best: progress.best,
    decisions: progress.decisions,
    report,
  }
  return learner.save({
    format: FORMAT,
    optimizer_step_count: String(learner.updateCount),
    progress: JSON.stringify(stored),
  })
}

/** @throws {CheckpointError} `checkpoint_corrupt` if the bytes are not a resume point */
export function decodeResumePoint(content: FileContent): ResumePoint {
  try {
    const { tensors, metadata } = decodeSafetensors(content, 'resume point')
    if (metadata.get('format') !== FORMAT) throw new Error(`its format is "${metadata.get('format') ?? ''}"`)
    const stored = JSON.parse(metadata.get('progress') ?? '') as StoredProgress
    const values = new Map([...tensors].map(([name, { data }]) => [name, data as Float32Array]))
    const progress = createProgress()
    progress.stepCount = stored.stepCount
    for (const [name, total] of stored.totals) progress.totals.set(name, total)
    progress.best = stored.best
    Object.assign(progress.decisions, stored.decisions ?? decisionsOf(stored.report))
    restoreReport(progress.report, stored.report)
    const marks = stored.best === null ? {} : { best: stored.best.optimizerStepCount }
    const updateCount = Number(metadata.get('optimizer_step_count'))
    return { state: { tensors: values, updateCount, marks }, progress }
  } catch (cause) {
    throw new CheckpointError('checkpoint_corrupt', 'the resume point of the job is damaged', { cause })
  }
}

function decisionsOf({ facts }: Pick<JobReport, 'facts'>): JobDecisions {
  const { sampler_mismatch: sampler } = facts
  return { sampler: sampler === undefined ? null : decisionOf(sampler) }
}

/**
 * Puts a job where its resume point was made. Call before the first step, after everything that is computed from the
 * weights the job started with.
 *
 * @throws {CheckpointError} `checkpoint_corrupt` if the point belongs to an adapter of another shape
 */
export async function applyResumePoint(
  learner: Learner,
  { progress, resumePoint }: { readonly progress: JobProgress; readonly resumePoint: ResumePoint | null },
): Promise<void> {
  if (resumePoint === null) return
  const { state, progress: made } = resumePoint
  await learner.load(state)
  progress.stepCount = made.stepCount
  progress.best = made.best
  for (const [name, total] of made.totals) progress.totals.set(name, total)
  Object.assign(progress.decisions, made.decisions)
  const { seconds: _, ...counted } = made.report
  restoreReport(progress.report, counted)
}
