/**
 * The request of a job, made of what was chosen in the form: the same for its plan and for its start, so that what was seen is what runs.
 */

import type { FileObject } from '#contract/wire/files.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { ApiError } from '../api-error.js'
import { ask } from '../client.js'
import { KINDS } from './kinds.js'

/** Where the rows are: a file of this machine, or one that was uploaded before. */
export type Source = { readonly file: File } | { readonly id: string }

export interface Asked {
  readonly kind: JobKind
  readonly modelId: string
  readonly source: Source
  /** Key that the options stand under. */
  readonly root: string
  readonly config: Readonly<Record<string, unknown>>
}

/** As base64 well below what an address of data may hold; the command line has the same bound. */
const MAX_INLINE_BYTES = 4 * 1024 ** 2
/** Groups are one text in memory; a larger file is the command line's. */
const MAX_GROUPS_BYTES = 256 * 1024 ** 2

/** What the job would do. @throws {ApiError} */
export function askPlan(asked: Asked, signal: AbortSignal): Promise<TrainingPlan> {
  return send(asked, true, signal)
}

/** Starts it, also if who asked leaves meanwhile. @throws {ApiError} */
export function startJob(asked: Asked): Promise<TrainingJob> {
  return send(asked, false)
}

/** What a job of this kind would do with a few rows. @throws {ApiError} */
export async function planRows(
  job: Pick<TrainingJob, 'kind' | 'model_id'>,
  rows: string,
  config: TrainingJob['config'],
): Promise<TrainingPlan> {
  const url = await inAddress(new Blob([rows]))
  // options that measure want rows to measure on
  const json = { model_id: job.model_id, training_data_url: url, validation_data_url: url, config }
  return await ask<TrainingPlan>(`${KINDS[job.kind].path}?plan=true`, { json })
}

async function send<T>(asked: Asked, isPlanned: boolean, signal?: AbortSignal): Promise<T> {
  const kind = KINDS[asked.kind]
  const path = `${kind.path}${isPlanned ? '?plan=true' : ''}`
  const options = { [asked.root]: asked.config }
  if (kind.data === 'groups') {
    const groups = await readGroups(asked.source)
    const rest = JSON.stringify({ model_id: asked.modelId, ...options })
    // lines stay as they are: numbers of a file keep their digits
    const body = `${rest.slice(0, -1)},"trajectory_groups":[${groups.join(',')}]}`
    return await ask<T>(path, { body, method: 'POST', headers: { 'content-type': 'application/json' }, signal })
  }
  const { url, isKnown } = await addressOfRows(asked.source, isPlanned, signal)
  try {
    return await ask<T>(path, { json: { model_id: asked.modelId, training_data_url: url, ...options }, signal })
  } catch (error) {
    const isGone = error instanceof ApiError && error.code === 'training_data_not_found'
    if (!isGone || !('file' in asked.source)) throw error
    uploads.delete(asked.source.file)
    if (!isKnown) throw error
  }
  return await send(asked, isPlanned, signal)
}

/** Ids of files that were uploaded: a large one is sent once for all of its plans and its start. */
const uploads = new WeakMap<File, string>()

/** Small rows are part of a plan's request, so that planning leaves nothing on the server. @returns isKnown: uploaded before */
async function addressOfRows(
  source: Source,
  isPlanned: boolean,
  signal?: AbortSignal,
): Promise<{ readonly url: string; readonly isKnown: boolean }> {
  if ('id' in source) return { url: source.id, isKnown: false }
  const { file } = source
  if (isPlanned && file.size <= MAX_INLINE_BYTES) return { url: await inAddress(file), isKnown: false }
  const known = uploads.get(file)
  if (known !== undefined) return { url: known, isKnown: true }
  const uploaded = await ask<FileObject>(`/v1/files?purpose=fine-tune&filename=${encodeURIComponent(file.name)}`, {
    body: file,
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream' },
    signal,
  })
  uploads.set(file, uploaded.id)
  return { url: uploaded.id, isKnown: false }
}

/** An address that holds the rows themselves. */
async function inAddress(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  let text = ''
  // a call takes some ten thousand arguments
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192))
  return `data:application/jsonl;base64,${btoa(text)}`
}

/** Texts of the groups: lines of JSON, an array, or `{"trajectory_groups": […]}`. @throws {ApiError} naming the line */
async function readGroups(source: Source): Promise<readonly string[]> {
  if ('id' in source) throw refuse('an RL job takes its groups from a file of this machine')
  const { file } = source
  if (file.size > MAX_GROUPS_BYTES) throw refuse(`${file.name} is too large for a browser: trainyard train rl sends it`)
  const text = await file.text()
  const whole = parse(text)
  if (Array.isArray(whole)) return whole.map((group) => JSON.stringify(group))
  if (typeof whole === 'object' && whole !== null && 'trajectory_groups' in whole) {
    const groups = whole.trajectory_groups
    if (Array.isArray(groups)) return groups.map((group) => JSON.stringify(group))
  }
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  const wrong = lines.findIndex((line) => parse(line) === undefined)
  if (wrong >= 0) throw refuse(`${file.name}:${wrong + 1}: this line is not JSON`)
  return lines
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function refuse(message: string): ApiError {
  return new ApiError(message, { status: 400, hint: 'trainyard help files shows the formats' })
}
