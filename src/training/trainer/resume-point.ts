/**
 * Where a job that lost its worker goes on: adapter, optimizer and progress between two gradient steps, as one file.
 *
 * A safetensors file with every adapter tensor `<name>` and its moments `<name>.first` and `<name>.second`, all float32, and
 * the progress as JSON in its metadata. Float32 and JSON numbers are read back bit for bit. There is no generator state: the
 * order of data and every random choice follow from the job's seed and the number of steps made.
 */
import { CheckpointError } from '#base/errors.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { decodeSafetensors, encodeSafetensors } from '#model/weights/safetensors.js'
import type { AdamWState } from '#numerics/nn/adamw.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { createProgress, type JobProgress } from './progress.js'
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

/** Serializes a job's state; equal states give equal bytes. */
export function encodeResumePoint({ adapter, optimizer, progress }: JobState): Uint8Array<ArrayBuffer> {
  const tensors = new Map<string, HostTensor>()
  const put = (name: string, data: Float32Array): void => void tensors.set(name, float32Tensor(data, [data.length]))
  for (const [name, values] of adapterParameters(adapter)) put(name, values)
  for (const [name, { first, second }] of optimizer.moments) {
    put(`${name}.first`, first)
    put(`${name}.second`, second)
  }
  return encodeSafetensors(tensors, {
    format: FORMAT,
    optimizer_step_count: String(optimizer.stepCount),
    progress: JSON.stringify({ stepCount: progress.stepCount, totals: [...progress.totals] }),
  })
}

/** @throws {CheckpointError} `checkpoint_corrupt` if the bytes are not a resume point */
export function decodeResumePoint(bytes: Uint8Array): ResumePoint {
  try {
    const { tensors, metadata } = decodeSafetensors(bytes, 'resume point')
    if (metadata.get('format') !== FORMAT) throw new Error(`its format is "${metadata.get('format') ?? ''}"`)
    const progress = createProgress()
    const stored = JSON.parse(metadata.get('progress') ?? '') as {
      stepCount: number
      totals: [string, { sum: number; count: number }][]
    }
    progress.stepCount = stored.stepCount
    for (const [name, total] of stored.totals) progress.totals.set(name, total)
    return {
      tensors: new Map([...tensors].map(([name, { data }]) => [name, data as Float32Array])),
      optimizerStepCount: Number(metadata.get('optimizer_step_count')),
      progress,
    }
  } catch (cause) {
    throw new CheckpointError('checkpoint_corrupt', 'the resume point of the job is damaged', { cause })
  }
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
  for (const [name, total] of point.progress.totals) progress.totals.set(name, total)
}
