/**
 * Requests of one attempt to the server: fenced by its number and token, and sent again when they fail on the way.
 *
 * Every write of the worker protocols is idempotent for one attempt. A 409 means that another attempt owns the job or session:
 * `FencedError`, and the worker must stop without a further write.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError, CheckpointError, NotFoundError, StorageError } from '#base/errors/errors.js'
import { createLogger } from '#base/logging/logger.js'
import { createDirectReads } from '#base/util/direct-reads.js'
import { bodyOf, type FileContent, sizeOf } from '#base/util/file-content.js'
import { errorBodySchema } from '#contract/wire/errors.js'

/** Which attempt at which job this worker makes. */
export interface WorkerIdentity {
  /** Base URL of the server, without a slash at the end. */
  readonly url: string
  readonly token: string
  /** Of the job, or of the training session. */
  readonly jobId: string
  readonly attempt: number
  /** How long a server that does not answer is tried, milliseconds. Default `PATIENCE_MS`. */
  readonly patienceMs?: number
  /** On another machine than the server: large files may be read where the server keeps them. Default false */
  readonly readsDirect?: boolean
  /** A training session instead of a job. */
  readonly isSession?: boolean
}

/** Another attempt owns the job, or the job is over. */
export class FencedError extends AppError {
  constructor(message: string) {
    super('conflict', 'stale_attempt', message)
  }
}

/** Sends one request until it is answered. Rejects with `FencedError` when the attempt is stale, with AppError `unavailable` without a server. */
export type FencedRequests = (method: string, path: string, init?: FencedInit) => Promise<Response>

export interface FencedInit {
  readonly headers?: Readonly<Record<string, string>>
  /** Text, or a file's bytes, which may not change before the answer. */
  readonly body?: string | FileContent
  /** The server is to give the bytes itself, also where they could be read elsewhere. Default false */
  readonly isFromServer?: boolean
}

interface FencedRequest extends Omit<FencedInit, 'isFromServer'> {
  readonly method: string
  readonly redirect?: 'manual'
}

/** How long a server that does not answer is tried before it counts as gone; a restart takes less. */
export const PATIENCE_MS = 60_000
/** Pauses before the first retries of a request; after them the last one again and again. */
const RETRY_PAUSES_MS = [200, 500, 1000, 2000, 4000]
/** How long the head of an answer may take. Its body may take as long as the job: rows are read as they are trained on. */
const ANSWER_TIMEOUT_MS = 120_000
/** What is sent before the head of the answer comes may take more: a connection of a few Mbit/s is slow, and works. */
const SENT_BYTES_PER_MS = 500
/**
 * A full disk, and a database that another program holds, are waited for, ten minutes: hours of training may hang on one write, and
 * somebody may make room or end that program.
 */
const STORAGE_PAUSE_MS = 5000
const STORAGE_RETRIES = 120

/** Of the process: what one attempt finds out the next one knows. */
const direct = createDirectReads((reason) =>
  createLogger({ level: 'warn' }).warn({ reason }, 'train.read_through_server'),
)

/**
 * @param pause waits so many milliseconds; for tests
 */
export function createFencedRequests(
  identity: WorkerIdentity,
  pause: (timeMs: number) => Promise<unknown> = sleep,
): FencedRequests {
  const kind = identity.isSession === true ? 'sessions' : 'jobs'
  const root = `${identity.url}/internal/worker/${kind}/${encodeURIComponent(identity.jobId)}`
  const headers = {
    authorization: `Bearer ${identity.token}`,
    'x-trainyard-attempt': String(identity.attempt),
  }
  const ask = async (url: string, request: FencedRequest, isFromServer: boolean): Promise<Response | Error> => {
    if (identity.readsDirect !== true || isFromServer || request.method !== 'GET') return fetchOnce(url, request)
    const answer = await fetchOnce(url, {
      ...request,
      redirect: 'manual',
      headers: { ...direct.headers(), ...request.headers },
    })
    if (!(answer instanceof Response)) return answer
    return (await direct.follow(answer)) ?? fetchOnce(url, request)
  }
  return async function send(method, path, { isFromServer = false, body, headers: own } = {}) {
    const request = { method, headers: { ...headers, ...own }, ...(body === undefined ? {} : { body }) }
    const patienceMs = identity.patienceMs ?? PATIENCE_MS
    let storageCount = 0
    let waitedMs = 0
    for (let attempt = 0; ; ) {
      const response = await ask(`${root}${path}`, request, isFromServer)
      if (response instanceof Response && response.ok) return response
      if (response instanceof Response && !isTransient(response.status)) throw await toError(response, method, path)
      const fault = response instanceof Response ? await storageFault(response) : null
      if (fault !== null) {
        storageCount += 1
        if (storageCount > STORAGE_RETRIES) throw notStored(fault, method, path)
        await pause(STORAGE_PAUSE_MS)
        continue
      }
      if (waitedMs >= patienceMs) throw unavailable(method, path, response)
      const pauseMs = RETRY_PAUSES_MS[Math.min(attempt, RETRY_PAUSES_MS.length - 1)] ?? 0
      attempt += 1
      waitedMs += pauseMs
      await pause(pauseMs)
    }
  }
}

/** A response whose body is still to be read, or the error of a connection that failed. */
async function fetchOnce(url: string, { body, ...init }: FencedRequest): Promise<Response | Error> {
  const controller = new AbortController()
  const sizeBytes = body === undefined || typeof body === 'string' ? 0 : sizeOf(body)
  const timeoutMs = ANSWER_TIMEOUT_MS + Math.ceil(sizeBytes / SENT_BYTES_PER_MS)
  const timer = setTimeout(
    () => controller.abort(new Error(`no answer within ${Math.ceil(timeoutMs / 1000)} s`)),
    timeoutMs,
  )
  const sent = body === undefined ? {} : typeof body === 'string' ? { body } : bodyOf(body)
  try {
    return await fetch(url, { ...init, ...sent, signal: controller.signal })
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  } finally {
    clearTimeout(timer)
  }
}

/** The rows of a job are gone from the data directory: no attempt can read them. */
export function jobDataMissing(cause: Error): StorageError {
  return new StorageError('blob_missing', "the job's data is no longer in the data directory", {
    hint: 'restore the data directory from a backup, or submit the job again with its data',
    cause,
  })
}

function isTransient(status: number): boolean {
  return status === 429 || status === 502 || status === 503 || status === 504
}

/** What keeps the server from storing anything for now; the value says so in a clause of the error. */
const STORAGE_FAULTS = {
  disk_full: { clause: "the server's disk was full", hint: 'make room, then submit the job again' },
  database_locked: {
    clause: "another program held the server's database",
    hint: 'end it, then submit the job again',
  },
  database_unavailable: {
    clause: "the server's database could not be reached",
    hint: 'see to it that it is, then submit the job again',
  },
  database_busy: {
    clause: "the server's database was too busy",
    hint: 'look at what else writes to it, then submit the job again',
  },
  blob_store_unavailable: {
    clause: "the server's blob store gave no answer",
    hint: 'see to it that it is reachable, then submit the job again',
  },
  blob_store_refused: {
    clause: "the server's blob store refused what the server asked",
    hint: 'look at its keys and rights in the log of the server, then submit the job again',
  },
} as const
type StorageFault = keyof typeof STORAGE_FAULTS

/** Reads the body: the answer is of no other use. */
async function storageFault(response: Response): Promise<StorageFault | null> {
  const body = await response.text().catch(() => '')
  const code = response.status === 503 ? /"code":\s*"(\w+)"/.exec(body)?.[1] : undefined
  return code !== undefined && code in STORAGE_FAULTS ? (code as StorageFault) : null
}

function notStored(fault: StorageFault, method: string, path: string): AppError {
  const minutes = (STORAGE_RETRIES * STORAGE_PAUSE_MS) / 60_000
  const { clause, hint } = STORAGE_FAULTS[fault]
  return new AppError('unavailable', fault, `${clause} for ${minutes} minutes: ${method} ${path} could not be stored`, {
    hint,
  })
}

async function toError(response: Response, method: string, path: string): Promise<AppError> {
  const body = (await response.text().catch(() => '')).slice(0, 4000)
  if (response.status === 409) return new FencedError(`${method} ${path}: this attempt no longer owns the job`)
  const message = `${method} ${path} was answered with ${response.status}: ${body.slice(0, 500)}`
  if (response.status === 404 && path === '/resume') return new CheckpointError('checkpoint_corrupt', message)
  const error = readError(body)
  if (error !== null && response.status === 404 && path === '') return new NotFoundError(error.code, error.message)
  if (error?.code === 'checkpoint_corrupt') return new CheckpointError(error.code, error.message, { hint: error.hint })
  if (error?.code === 'blob_missing') return jobDataMissing(new Error(message))
  return new AppError('internal', 'worker_protocol', message)
}

/** Code and message of our own error body; null for any other text. */
function readError(
  body: string,
): { readonly code: string; readonly message: string; readonly hint: string | undefined } | null {
  try {
    const error = errorBodySchema.parse(JSON.parse(body)).error
    if (typeof error === 'string' || typeof error.code !== 'string') return null
    return { code: error.code, message: error.message, hint: error.hint ?? undefined }
  } catch {
    return null
  }
}

function unavailable(method: string, path: string, last: Response | Error): AppError {
  const reason = last instanceof Response ? `status ${last.status}` : last.message
  return new AppError(
    'unavailable',
    'server_unreachable',
    `${method} ${path} got no answer from the server: ${reason}`,
    {
      cause: last instanceof Error ? last : undefined,
    },
  )
}
