/**
 * An engine node's side of `contract/processes/engine-node.ts`: what it asks the server, with its API key.
 */
import { AppError, NotFoundError } from '#base/errors/errors.js'
import { createDirectReads, DIRECT_HEADER } from '#base/util/direct-reads.js'
import { isJsonObject } from '#base/util/json.js'
import { rangeHeaders, readResumed } from '#base/util/resumed-body.js'
import {
  type EngineAdapterFiles,
  type EngineNodeLease,
  type EngineNodeReport,
  engineAdapterFilesSchema,
  engineNodeLeaseSchema,
} from '#contract/processes/engine-node.js'
import { baseModelFilesSchema } from '#contract/processes/worker.js'
import type { BaseModelSource } from '#model/weights/fetch-base-model.js'

export interface ServerLink {
  /** @throws {AppError} `unavailable` where another try may help */
  report(report: EngineNodeReport): Promise<EngineNodeLease>
  baseModel(name: string): BaseModelSource
  listAdapter(digest: string): Promise<EngineAdapterFiles>
  openAdapterFile(digest: string, file: string): Promise<AsyncIterable<Uint8Array>>
}

/** How long the head of an answer may take: the server hashes a base model when it is first asked for it. */
const ANSWER_TIMEOUT_MS = 120_000

/** @param url without a slash at the end */
export function createServerLink({
  url,
  apiKey,
  onTrouble = () => undefined,
}: {
  readonly url: string
  readonly apiKey: string
  /** Files are not read where the server keeps them, told once. */
  readonly onTrouble?: (reason: string) => void
}): ServerLink {
  const direct = createDirectReads(onTrouble)

  async function send(
    method: string,
    path: string,
    { body, headers = {} }: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> } = {},
  ): Promise<Response> {
    const gone = new AbortController()
    const timer = setTimeout(() => gone.abort(), ANSWER_TIMEOUT_MS)
    let response: Response
    try {
      response = await fetch(`${url}/internal/engine${path}`, {
        method,
        signal: gone.signal,
        redirect: 'manual',
        headers: {
          ...headers,
          authorization: `Bearer ${apiKey}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    } catch (cause) {
      throw new AppError('unavailable', 'server_unreachable', `the server at ${url} does not answer`, { cause })
    } finally {
      clearTimeout(timer)
    }
    if (response.ok || (response.status === 302 && DIRECT_HEADER in headers)) return response
    throw await toError(response, url)
  }

  async function open(path: string): Promise<AsyncIterable<Uint8Array>> {
    const answer = await direct.follow(await send('GET', path, { headers: direct.headers() }))
    return (answer ?? (await send('GET', path))).body ?? nothing()
  }

  return {
    report: async (report) => read(engineNodeLeaseSchema, await send('POST', '/nodes', { body: report })),
    baseModel: (name) => {
      const path = `/base-models/${encodeURIComponent(name)}`
      return {
        getBaseModelFiles: async () => read(baseModelFilesSchema, await send('GET', path)),
        openBaseModelFile: async (file, from) =>
          readResumed(await send('GET', `${path}/files/${file}`, { headers: rangeHeaders(from) })),
      }
    },
    listAdapter: async (digest) => read(engineAdapterFilesSchema, await send('GET', `/adapters/${digest}`)),
    openAdapterFile: (digest, file) => open(`/adapters/${digest}/${file}`),
  }
}

/** @throws {AppError} `unexpected_answer` for what the server cannot have meant */
async function read<T>(
  schema: { safeParse(value: unknown): { success: true; data: T } | { success: false } },
  response: Response,
): Promise<T> {
  const result = schema.safeParse(await response.json().catch(() => null))
  if (result.success) return result.data
  throw new AppError(
    'unavailable',
    'unexpected_answer',
    `${new URL(response.url).origin} does not answer as a Trainyard server`,
  )
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

async function toError(response: Response, url: string): Promise<AppError> {
  const body: unknown = await response.json().catch(() => null)
  const error = isJsonObject(body) && isJsonObject(body['error']) ? body['error'] : {}
  const said = (name: string): string | null => (typeof error[name] === 'string' ? String(error[name]) : null)
  const message = said('message') ?? `the server at ${url} answered with status ${response.status}`
  const code = said('code') ?? `status_${response.status}`
  const advice = said('hint')
  const hint = advice === null ? {} : { hint: advice }
  if (response.status === 404) return new NotFoundError(code, message, hint)
  if (response.status === 401) return new AppError('authentication', code, message, hint)
  if (response.status === 403) return new AppError('permission', code, message, hint)
  if (response.status === 409 || response.status === 410) return new AppError('conflict', code, message, hint)
  if (response.status < 500 && response.status !== 429) return new AppError('invalid_request', code, message, hint)
  return new AppError('unavailable', code, message, hint)
}
