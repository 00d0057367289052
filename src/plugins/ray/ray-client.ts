/**
 * The jobs API of a Ray cluster's head, as of Ray 2.60.0: list, submit, stop, delete.
 *
 * Over `node:http`: what `fetch` sends along Ray takes for a browser and refuses.
 * Source: https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html, and what 2.60.0 answers
 * (`test/goldens/ray-2.60.0.json`).
 */
import { request as sendHttp } from 'node:http'
import { request as sendHttps } from 'node:https'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { AppError } from '#base/errors/errors.js'

/** A job as Ray tells it: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED. */
export interface RayJob {
  readonly id: string
  readonly status: string
  readonly message: string
}

export interface RaySubmission {
  readonly id: string
  readonly entrypoint: string
  readonly cpus: number
  readonly gpus: number
  readonly resources: Readonly<Record<string, number>>
}

/** Each call rejects with {AppError} `ray_unavailable` where Ray cannot be reached, `ray_refused` where it says no. */
export interface RayClient {
  list(): Promise<readonly RayJob[]>
  submit(submission: RaySubmission): Promise<void>
  /** Asks for it; whether it does stop shows in the list. */
  stop(id: string): Promise<void>
  /** Forgets a job that has ended. */
  remove(id: string): Promise<void>
}

const TIMEOUT_MS = 10_000

/** What is read of the list of jobs (`GET /api/jobs/` of Ray 2.60.0). */
const rayJobsSchema = z
  .array(
    z.object({
      /** Null for jobs that were not submitted but connected. */
      submission_id: z.string().max(1000).nullish(),
      /** PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED. */
      status: z.string().max(100),
      message: z
        .string()
        .max(2 ** 20)
        .nullish(),
    }),
  )
  .max(100_000)

/** @param token of `RAY_AUTH_MODE=token`; null for a cluster without */
export function createRayClient(url: string, token: string | null): RayClient {
  async function call(method: string, path: string, body?: object): Promise<string> {
    const { status, said } = await send(new URL(path, url), { method, token, body }).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new AppError('unavailable', 'ray_unavailable', `Ray at ${url} gives no answer: ${reason}`, { cause })
    })
    if (status >= 200 && status < 300) return said
    const isToken = status === 401 || status === 403
    const hint = 'RAY_AUTH_TOKEN, or the file that RAY_AUTH_TOKEN_PATH names, must hold the token of the cluster'
    throw new AppError('unavailable', 'ray_refused', `Ray at ${url} answers ${status}: ${said.trim().slice(0, 300)}`, {
      ...(isToken ? { hint } : {}),
    })
  }

  return {
    list: async () => {
      const jobs = rayJobsSchema.parse(JSON.parse(await call('GET', '/api/jobs/')))
      return jobs.flatMap(({ submission_id: id, status, message }) =>
        id == null ? [] : [{ id, status, message: message ?? '' }],
      )
    },
    submit: async ({ id, entrypoint, cpus, gpus, resources }) => {
      await call('POST', '/api/jobs/', {
        ...{ submission_id: id, entrypoint, runtime_env: {} },
        ...{ entrypoint_num_cpus: cpus, entrypoint_num_gpus: gpus, entrypoint_resources: resources },
      })
    },
    stop: async (id) => void (await call('POST', `/api/jobs/${encodeURIComponent(id)}/stop`)),
    remove: async (id) => void (await call('DELETE', `/api/jobs/${encodeURIComponent(id)}`)),
  }
}

interface Outgoing {
  readonly method: string
  readonly token: string | null
  readonly body: object | undefined
}

function send(
  url: URL,
  { method, token, body }: Outgoing,
): Promise<{ readonly status: number; readonly said: string }> {
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  return new Promise((resolve, reject) => {
    const sender = url.protocol === 'https:' ? sendHttps : sendHttp
    const request = sender(url, { method, headers, signal: AbortSignal.timeout(TIMEOUT_MS) }, (response) => {
      text(response).then((said) => resolve({ status: response.statusCode ?? 0, said }), reject)
    })
    request.on('error', reject)
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
