/**
 * Entry of a process that plans a job: takes one request over its IPC channel, says that it gets on, answers, ends.
 *
 * A process of its own for the same reasons as a job's: it tokenizes, holds rows and runs a graph, and none of that may stop
 * the server. It reads files of this machine and changes nothing.
 */
import { createReadStream } from 'node:fs'
import { readEnvironment } from '#base/environment.js'
import { answerProcess } from '#base/processes/ask-process.js'
import { systemClock } from '#base/util/clock.js'
import type { PlanRequest } from '#contract/processes/plan.js'
import type { PlanFindings } from '#contract/wire/training/plan.js'
import { checkpointTitle, readStoredFile } from '#formats/checkpoint-manifest.js'
import type { TextModel } from '#model/text/text-model.js'
import type { JobSource } from '#training/kinds/start.js'
import { readTrainers } from '#training/trainer/trainers.js'
import { createBaseModelOpener } from '../base-model.js'
import { countRuns } from '../counted-runtime.js'
import { jobDataMissing } from '../fenced-requests.js'
import { createJobRuntime } from '../job-runtime.js'
import { openJob } from '../open-job.js'
import { planJob } from './plan-job.js'

/** Between two reports that something was done. */
const REPORT_MS = 1000

/** Tells the server that this gets on; what goes through here many times a second is told once. */
function createReporter(report: () => void): () => void {
  let lastMs = Number.NEGATIVE_INFINITY
  return () => {
    const nowMs = performance.now()
    if (nowMs - lastMs < REPORT_MS) return
    lastMs = nowMs
    report()
  }
}

/** A model's text, with `note` called for each piece that is tokenized. */
function countTexts(text: TextModel, note: () => void): TextModel {
  const { tokenizer } = text
  const encode: typeof tokenizer.encode = (piece, options) => {
    note()
    return tokenizer.encode(piece, options)
  }
  return { ...text, tokenizer: { ...tokenizer, encode } }
}

/** @throws {StorageError} `blob_missing`, as a worker is told by the server */
async function* readInput(path: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(path)
  } catch (cause) {
    throw cause instanceof Error && 'code' in cause && cause.code === 'ENOENT' ? jobDataMissing(cause) : cause
  }
}

/** A job's data in files of this machine. */
function fileSource({ job, inputPath, validationPath, parentFiles }: PlanRequest): JobSource {
  const parent = checkpointTitle(job.model_name, job.parent_step)
  return {
    openInput: () => readInput(inputPath),
    openValidation: () => readInput(validationPath ?? inputPath),
    getParentFile: async (name) => {
      const file = parentFiles[name]
      if (file === undefined) throw new Error(`a plan was given no file "${name}"`)
      return { bytes: await readStoredFile(parent, name, file.path), sha256: file.sha256 }
    },
    getReferenceFile: (name) => Promise.reject(new Error(`a plan reads no reference, "${name}" was asked for`)),
  }
}

await answerProcess<PlanRequest, PlanFindings>('plan_failed', async (request, asker) => {
  const { job, folders, earlier } = request
  const threads = Number(readEnvironment()['TRAINYARD_THREADS'])
  const note = createReporter(asker.progress)
  if (folders.base_model === null) throw new Error('a plan was given no base model')
  const open = createBaseModelOpener(async () => undefined)
  const { prepared, text } = await open({ sourcePath: folders.base_model, preparedDir: folders.prepared })
  const trainers = readTrainers(readEnvironment())
  const backend = await trainers.choose(null, note)
  const { opened, context } = await openJob({
    backend,
    prepared,
    text: countTexts(text, note),
    source: fileSource(request),
    job,
    runtime: countRuns(createJobRuntime(readEnvironment()), note),
    clock: systemClock,
    resumePoint: null,
    ...(Number.isInteger(threads) && threads > 0 ? { threads } : {}),
  })
  const findings = await planJob(opened, context, earlier)
  await trainers.stop()
  await asker.answer(findings)
})
