/**
 * The training worker's side of the protocol of jobs (`contract/processes/worker.ts`).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CheckpointError } from '#base/errors/errors.js'
import { type FileContent, sha256Of, sizeOf } from '#base/util/file-content.js'
import { type ResumedBody, rangeHeaders, readResumed } from '#base/util/resumed-body.js'
import {
  type BaseModelFiles,
  baseModelFilesSchema,
  type CheckpointFile,
  heartbeatReplySchema,
  type WorkerCompletion,
  type WorkerEvents,
  type WorkerFailure,
  type WorkerJob,
  workerJobSchema,
} from '#contract/processes/worker.js'
import type { JobSource } from '#training/kinds/start.js'
import { createFencedRequests, type WorkerIdentity } from './fenced-requests.js'
import { createKeptRows } from './kept-rows.js'
import type { OwnFiles } from './own-files.js'
import { fetchFile, readRows } from './read-files.js'

/** A file the server stored, as the completion names it. */
export interface UploadedFile {
  readonly sha256: string
  readonly size_bytes: number
}

/** Calls of one attempt. All reject with `FencedError` when the attempt is stale and AppError `unavailable` without a server. */
export interface WorkerClient extends JobSource {
  getJob(): Promise<WorkerJob>
  getBaseModelFiles(): Promise<BaseModelFiles>
  /** Bytes of one of them, as they come. */
  openBaseModelFile(name: string, from: number): Promise<ResumedBody>
  /** @param progress what this attempt has done so far, see `WorkerHeartbeat` */
  heartbeat(progress: number): Promise<{ readonly isCancelRequested: boolean; readonly isStopRequested: boolean }>
  postEvents(events: WorkerEvents): Promise<void>
  putFile(file: CheckpointFile, content: FileContent): Promise<UploadedFile>
  /** @throws {CheckpointError} `checkpoint_corrupt` if the bytes do not have the digest */
  getResumePoint(sha256: string): Promise<FileContent>
  /** @param eventCount events posted before it, all attempts together */
  putResumePoint(content: FileContent, eventCount: number): Promise<void>
  /** What was noted of the rollouts, with how many there are. */
  putRollouts(bytes: Uint8Array, counts: { readonly groups: number; readonly trajectories: number }): Promise<void>
  complete(completion: WorkerCompletion): Promise<void>
  fail(failure: WorkerFailure): Promise<void>
  /** Gives back the room on disk that rows took. */
  close(): Promise<void>
}

export interface WorkerClientOptions {
  readonly onRows?: () => void
  /** Where what it uploads is kept for the next job of the model; null: nowhere, the default. */
  readonly ownFiles?: OwnFiles | null
  readonly pause?: (timeMs: number) => Promise<unknown>
}

/**
 * Creates the client; opens no connection.
 *
 * @param onRows called for each part of rows that is written to this machine's disk or read from there
 * @param pause waits so many milliseconds; for tests
 */
export function createWorkerClient(
  identity: WorkerIdentity,
  { onRows = () => undefined, ownFiles = null, pause = sleep }: WorkerClientOptions = {},
): WorkerClient {
  const send = createFencedRequests(identity, pause)
  const kept = createKeptRows(onRows)
  let digests: WorkerJob['parent_digests'] = {}

  const postJson = async (path: string, body: object): Promise<Response> =>
    send('POST', path, { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })

  return {
    getJob: async () => {
      const job = workerJobSchema.parse(await (await send('GET', '')).json())
      digests = job.parent_digests
      return job
    },
    openInput: () => readRows(send, '/input', kept),
    openValidation: () => readRows(send, '/validation', kept),
    getReferenceFile: (file) => fetchFile(send, `/reference/${file}`),
    getParentFile: async (file) => {
      const sha256 = digests[file]
      const bytes = sha256 === undefined ? null : ((await ownFiles?.find(sha256)) ?? null)
      return sha256 === undefined || bytes === null ? fetchFile(send, `/parent/${file}`) : { bytes, sha256 }
    },
    getBaseModelFiles: async () => baseModelFilesSchema.parse(await (await send('GET', '/base-model')).json()),
    openBaseModelFile: async (name, from) =>
      readResumed(await send('GET', `/base-model/${name}`, { headers: rangeHeaders(from) })),
    heartbeat: async (progress) => {
      const reply = heartbeatReplySchema.parse(await (await postJson('/heartbeat', { progress })).json())
      return { isCancelRequested: reply.is_cancel_requested, isStopRequested: reply.is_stop_requested }
    },
    postEvents: async (events) => void (await postJson('/events', events)),
    putFile: async (file, content) => {
      const sha256 = sha256Of(content)
      await send('PUT', `/files/${file}`, {
        body: content,
        headers: { 'content-type': 'application/octet-stream', 'x-content-sha256': sha256 },
      })
      await ownFiles?.keep(sha256, content)
      return { sha256, size_bytes: sizeOf(content) }
    },
    getResumePoint: async (sha256) => {
      const { bytes } = await fetchFile(send, '/resume')
      if (sha256Of(bytes) === sha256) return bytes
      throw new CheckpointError('checkpoint_corrupt', 'the resume point of the job does not have its digest')
    },
    putResumePoint: async (content, eventCount) => {
      await send('PUT', '/resume', {
        body: content,
        headers: {
          'content-type': 'application/octet-stream',
          'x-content-sha256': sha256Of(content),
          'x-trainyard-events': String(eventCount),
        },
      })
    },
    putRollouts: async (bytes, { groups, trajectories }) => {
      await send('PUT', '/rollouts', {
        body: bytes,
        headers: {
          'content-type': 'application/octet-stream',
          'x-content-sha256': sha256Of(bytes),
          'x-trainyard-groups': String(groups),
          'x-trainyard-trajectories': String(trajectories),
        },
      })
    },
    complete: async (completion) => void (await postJson('/complete', completion)),
    fail: async (failure) => void (await postJson('/fail', failure)),
    close: kept.close,
  }
}
