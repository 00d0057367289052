/**
 * Attempts at one job against a server that holds what a worker leaves: events, resume points, files. An attempt can be killed at a step.
 */
import { expect } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemClock } from '#base/util/clock.js'
import { copyOf, sha256Of, sizeOf } from '#base/util/file-content.js'
import type { WorkerCompletion, WorkerEvents, WorkerJob } from '#contract/processes/worker.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { createTrainers, type Trainers } from '#training/trainer/trainers.js'
import { createBaseModelOpener } from '#training/worker/base-model.js'
import { FencedError } from '#training/worker/fenced-requests.js'
import { runJob } from '#training/worker/run-job.js'
import type { WorkerClient } from '#training/worker/worker-client.js'
import { workerJob } from './worker-job.js'

/** What the server holds of one job, across attempts. */
export interface Held {
  readonly events: WorkerEvents['events']
  readonly files: Map<string, Uint8Array>
  resume: { readonly bytes: Uint8Array; readonly events: number } | null
  completion: WorkerCompletion | null
  /** Events posted again, which the real server leaves as they were. */
  readonly repeated: WorkerEvents['events']
}

/** When an attempt dies: with the event of gradient step `step`, or once the resume point behind it is stored. */
export interface Death {
  readonly step: number
  readonly moment: 'event' | 'point'
}

export interface AttemptOptions {
  readonly input: readonly unknown[]
  /** Default null: it lives. */
  readonly death?: Death | null
  readonly modelPath: string
  readonly preparedDir: string
  /** Default ONNX Runtime. */
  readonly trainers?: Trainers
}

/** Computes with ONNX Runtime. */
const ONNX = createTrainers({ trainer: 'onnx', modules: {}, python: 'none', environment: {} })

/** Runs one attempt; resolves to whether it was killed. */
export async function attempt(
  held: Held,
  job: Partial<WorkerJob>,
  { input, death = null, modelPath, preparedDir, trainers = ONNX }: AttemptOptions,
): Promise<boolean> {
  const die = (): never => {
    throw new FencedError('killed')
  }
  const client: WorkerClient = {
    getJob: () => Promise.reject(new Error('unused')),
    openInput: async function* () {
      yield Buffer.from(input.map((line) => `${JSON.stringify(line)}\n`).join(''))
    },
    openValidation: async function* () {
      yield Buffer.from(input.map((line) => `${JSON.stringify(line)}\n`).join(''))
    },
    getParentFile: () => Promise.reject(new Error('unused')),
    getReferenceFile: () => Promise.reject(new Error('unused')),
    getBaseModelFiles: () => Promise.reject(new Error('unused')),
    openBaseModelFile: () => Promise.reject(new Error('unused')),
    heartbeat: () => Promise.reject(new Error('unused')),
    postEvents: async ({ offset, events }) => {
      if (offset > held.events.length) throw new Error(`a gap before event ${offset}`)
      if (offset < held.events.length) held.repeated.push(...events)
      else held.events.push(...events)
      if (death?.moment === 'event' && offset === death.step) die()
    },
    putFile: async (name, content) => {
      held.files.set(name, copyOf(content))
      return { sha256: sha256Of(content), size_bytes: sizeOf(content) }
    },
    getResumePoint: async (sha256) => {
      expect(sha256Of(held.resume!.bytes)).toBe(sha256)
      return held.resume!.bytes
    },
    putResumePoint: async (content, events) => {
      held.resume = { bytes: copyOf(content), events }
      if (death?.moment === 'point' && events === death.step + 1) die()
    },
    putRollouts: () => Promise.reject(new Error('unused')),
    complete: async (completion) => {
      held.completion = completion
    },
    fail: () => Promise.reject(new Error('unused')),
    close: () => Promise.reject(new Error('unused')),
  }
  const described = workerJob({
    resume_seconds: death === null ? 3600 : 0,
    resume: held.resume === null ? null : { sha256: sha256Of(held.resume.bytes), events: held.resume.events },
    ...job,
  })
  const openBaseModel = createBaseModelOpener(() => Promise.resolve())
  const options = {
    runtime: createOrtRuntime(),
    clock: systemClock,
    logger: createLogger({ level: 'silent' }),
    threads: 1,
    trainers,
    onProgress: () => undefined,
    computing: { trainer: 'onnx', device: 'cpu', versions: {} },
    openBaseModel: () => openBaseModel({ sourcePath: modelPath, preparedDir }),
  }
  try {
    await runJob({ client, job: described, isCancelRequested: () => false, ...options })
    return false
  } catch (error) {
    if (error instanceof FencedError) return true
    throw error
  }
}

/** A server that knows nothing of the job yet. */
export const nothing = (): Held => ({ events: [], files: new Map(), resume: null, completion: null, repeated: [] })

/** An event without what depends on the clock. */
export const timeless = ({ type, data }: WorkerEvents['events'][number]) => ({
  type,
  data: { ...data, tokens_per_second: 0 },
})

/** A report without what depends on the clock and on what is free on the machine. */
export const timelessReport = (completion: WorkerCompletion | null) => ({
  ...completion?.report,
  seconds: {},
  facts: { ...completion?.report?.facts, memory: {} },
})
