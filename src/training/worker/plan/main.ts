/**
 * Entry of a process that plans a job: takes one request over its IPC channel, says that it gets on, answers, ends.
 *
 * A process of its own for the same reasons as a job's: it tokenizes, holds rows and runs a graph, and none of that may stop
 * the server. It reads files of this machine and changes nothing.
 */
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { PlanReply, PlanRequest } from '#api/wire/training/plan-process.js'
import { readEnvironment } from '#base/environment.js'
import { AppError } from '#base/errors.js'
import { systemClock } from '#base/util/clock.js'
import type { JsonObject } from '#base/util/json.js'
import type { TextModel } from '#model/text/text-model.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { createBaseModelOpener } from '../base-model.js'
import { countRuns } from '../counted-runtime.js'
import type { JobSource } from '../job-kinds.js'
import { JOB_RUNTIME, openJob } from '../open-job.js'
import { planJob } from './plan-job.js'

process.umask(0o077)
process.on('disconnect', () => process.exit(0))

function reply(message: PlanReply): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()))
}

/** Between two reports that something was done. */
const REPORT_MS = 1000

/** Tells the server that this gets on; what goes through here many times a second is told once. */
function createReporter(): () => void {
  let lastMs = Number.NEGATIVE_INFINITY
  return () => {
    const nowMs = performance.now()
    if (nowMs - lastMs < REPORT_MS) return
    lastMs = nowMs
    process.send?.({ type: 'progress' } satisfies PlanReply)
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

async function answer(request: PlanRequest): Promise<PlanReply> {
  const { job, earlier } = request
  const threads = Number(readEnvironment()['TRAINYARD_THREADS'])
  const note = createReporter()
  const { prepared, text } = await createBaseModelOpener(async () => undefined)(job.base_model)
  const { opened, context } = await openJob({
    prepared,
    text: countTexts(text, note),
    source: fileSource(request),
    job,
    runtime: countRuns(createOrtRuntime(JOB_RUNTIME), note),
    clock: systemClock,
    resumePoint: null,
    ...(Number.isInteger(threads) && threads > 0 ? { threads } : {}),
  })
  return { type: 'planned', findings: await planJob(opened, context, earlier) }
}

/** A job's data in files of this machine. */
function fileSource({ inputPath, validationPath, parentFiles }: PlanRequest): JobSource {
  return {
    openInput: () => createReadStream(inputPath),
    openValidation: () => createReadStream(validationPath ?? inputPath),
    getParentFile: async (name) => {
      const file = parentFiles[name]
      if (file === undefined) throw new Error(`a plan was given no file "${name}"`)
      return { bytes: await readFile(file.path), sha256: file.sha256 }
    },
    getReferenceFile: (name) => Promise.reject(new Error(`a plan reads no reference, "${name}" was asked for`)),
  }
}

function describe(error: unknown): Extract<PlanReply, { readonly type: 'failed' }>['error'] {
  if (error instanceof AppError) {
    const { category, code, message, param = null, hint = null, details } = error
    return { category, code, message, param, hint, details: (details as JsonObject | undefined) ?? null }
  }
  const message = error instanceof Error ? error.message : String(error)
  return { category: 'internal', code: 'plan_failed', message, param: null, hint: null, details: null }
}

const [request] = (await once(process, 'message')) as [PlanRequest]
try {
  await reply(await answer(request))
  process.exit(0)
} catch (error) {
  await reply({ type: 'failed', error: describe(error) })
  process.exit(1)
}
