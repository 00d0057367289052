/**
 * Where a job that lost its worker goes on: adapter, optimizer and progress between two gradient steps, as one file.
 *
 * A safetensors file with every adapter tensor `<name>` and its moments `<name>.first` and `<name>.second`, all
 * float32, the same under `best:<name>` where the job keeps its best state, and the progress as JSON in its metadata.
 * Float32 and JSON numbers are read back bit for bit. There is no generator state: the order of data and every random
 * choice follow from the job's seed and the number of steps made.
 */
import { CheckpointError } from '#base/errors/errors.js'
import type { FileContent } from '#base/util/file-content.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { decodeSafetensors, safetensorsPieces } from '#model/weights/safetensors.js'
import type { AdamWState, Moments } from '#numerics/optim/adamw.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { decisionOf, type JobDecisions } from './decisions.js'
import { createProgress, type JobProgress, type KeptState } from './progress.js'
import { type JobReport, restoreReport } from './report.js'
import { adapterParameters } from './trainer.js'

const FORMAT = 'trainyard.resume'

/** What changes while a job runs. */
export interface JobState {
  readonly adapter: AdapterWeights
  readonly optimizer: AdamWState
  readonly progress: JobProgress
}

/** A decoded resume point. */
export interface ResumePoint {
  readonly tensors: ReadonlyMap<string, Float32Array>
  readonly optimizerStepCount: number
  readonly progress: JobProgress
}

/** Begins the names of the best state's tensors. */
const BEST = 'best:'

/** What of the progress is JSON; tensors stand beside it. */
interface StoredProgress {
  readonly stepCount: number
  readonly totals: [string, { sum: number; count: number }][]
  readonly best: { readonly step: number; readonly loss: number; readonly optimizerStepCount: number } | null
  /** Absent in points of versions that asked the report. */
  readonly decisions?: JobDecisions
  readonly report: Omit<JobReport, 'seconds'>
}

/** Serializes a job's state into views of it; equal states give equal bytes, whatever time they took. */
export function encodeResumePoint({ adapter, optimizer, progress }: JobState): FileContent {
  const tensors = new Map<string, HostTensor>()
  const put = (name: string, data: Float32Array): void => void tensors.set(name, float32Tensor(data, [data.length]))
  const putAll = (prefix: string, values: ReadonlyMap<string, Float32Array>, { moments }: AdamWState): void => {
    for (const [name, data] of values) put(`${prefix}${name}`, data)
    for (const [name, { first, second }] of moments) {
      put(`${prefix}${name}.first`, first)
      put(`${prefix}${name}.second`, second)
    }
  }
  putAll('', adapterParameters(adapter), optimizer)
  const { best } = progress
  if (best !== null) putAll(BEST, best.tensors, best.optimizer)
  const { seconds: _, ...report } = progress.report
  const stored: StoredProgress = {
    stepCount: progress.stepCount,
    totals: [...progress.totals],
    best: best === null ? null : { step: best.step, loss: best.loss, optimizerStepCount: best.optimizer.stepCount },
    decisions: progress.decisions,
    report,
  }
  return safetensorsPieces(tensors, {
    format: FORMAT,
    optimizer_step_count: String(optimizer.stepCount),
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
    progress.best = stored.best === null ? null : bestOf(stored.best, values)
    Object.assign(progress.decisions, stored.decisions ?? decisionsOf(stored.report))
    restoreReport(progress.report, stored.report)
    return { tensors: values, optimizerStepCount: Number(metadata.get('optimizer_step_count')), progress }
  } catch (cause) {
    throw new CheckpointError('checkpoint_corrupt', 'the resume point of the job is damaged', { cause })
  }
}

function decisionsOf({ facts }: Pick<JobReport, 'facts'>): JobDecisions {
  const { sampler_mismatch: sampler } = facts
  return { sampler: sampler === undefined ? null : decisionOf(sampler) }
}

function bestOf(
  { step, loss, optimizerStepCount }: NonNullable<StoredProgress['best']>,
  values: ReadonlyMap<string, Float32Array>,
): KeptState {
  const own = [...values].flatMap(([name, data]) =>
    name.startsWith(BEST) ? [[name.slice(BEST.length), data] as const] : [],
  )
  const tensors = new Map(own.filter(([name]) => !/\.(first|second)$/.test(name)))
  const all = new Map(own)
  const moments = new Map<string, Moments>()
  for (const name of tensors.keys()) {
    const [first, second] = [all.get(`${name}.first`), all.get(`${name}.second`)]
    if (first !== undefined && second !== undefined) moments.set(name, { first, second })
  }
  return { step, loss, tensors, optimizer: { stepCount: optimizerStepCount, moments } }
}

/**
 * Puts a job where its resume point was made. Call before the first step, after everything that is computed from the
 * weights the job started with.
 *
 * @throws {CheckpointError} `checkpoint_corrupt` if the point belongs to an adapter of another shape
 */
export function applyResumePoint({ adapter, optimizer, progress }: JobState, point: ResumePoint | null): void {
  if (point === null) return
  const read = (name: string, length: number): Float32Array => {
    const values = point.tensors.get(name)
    if (values?.length === length) return values
    throw new CheckpointError('checkpoint_corrupt', `the resume point of the job has no "${name}" of ${length} values`)
  }
  for (const [name, values] of adapterParameters(adapter)) {
    values.set(read(name, values.length))
    if (point.optimizerStepCount === 0) continue
    const [first, second] = [read(`${name}.first`, values.length), read(`${name}.second`, values.length)]
    optimizer.moments.set(name, { first, second })
  }
  optimizer.stepCount = point.optimizerStepCount
  progress.stepCount = point.progress.stepCount
  progress.best = point.progress.best
  for (const [name, total] of point.progress.totals) progress.totals.set(name, total)
  Object.assign(progress.decisions, point.progress.decisions)
  const { seconds: _, ...counted } = point.progress.report
  restoreReport(progress.report, counted)
}
