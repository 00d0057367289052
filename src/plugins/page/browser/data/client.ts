/**
 * Requests to the API, as any program makes them: JSON in and out, the credential in a header, errors with what the server says to do.
 */
import { SERVER_PATH } from './address.js'
import { ApiError, readError } from './api-error.js'
import { learnTime } from './clock.js'
import { credential } from './session.js'

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly json?: unknown
  /** Sent as it is: a file, or JSON that was put together as text. */
  readonly body?: Blob | string
  readonly signal?: AbortSignal | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** Another credential than the one that is signed in. */
  readonly bearer?: string
}

/** The address of an API path on this server. @param path as `/v1/models` */
export function apiUrl(path: string): string {
  return SERVER_PATH + path.slice(1)
}

/** @returns the answer once its status says that it is one @throws {ApiError} */
export async function open(path: string, options: RequestOptions = {}): Promise<Response> {
  const bearer = options.bearer ?? credential.value
  const response = await fetch(apiUrl(path), {
    method: options.method ?? (options.json === undefined && options.body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
      ...(options.json === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body === undefined ? {} : { body: options.body }),
    ...(options.json === undefined ? {} : { body: JSON.stringify(options.json) }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    credentials: 'omit',
    cache: 'no-store',
  }).catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause
    throw new ApiError('The server does not answer.', { status: 0, hint: 'see whether trainyard serve still runs' })
  })
  learnTime(response.headers.get('date'))
  if (!response.ok) throw await readError(response)
  return response
}

/** @throws {ApiError} */
export async function ask<T>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await (await open(path, options)).json()) as T
}

/** A list with its pages, up to a bound. @returns the items, and whether there are more */
export async function askAll<T extends { readonly id: string }>(
  path: string,
  options: RequestOptions & { readonly most?: number } = {},
): Promise<{ readonly data: readonly T[]; readonly hasMore: boolean }> {
  const { most = 2000 } = options
  const data: T[] = []
  for (;;) {
    const last = data.at(-1)?.id
    const page = await ask<{ data: T[]; has_more: boolean }>(
      `${path}${path.includes('?') ? '&' : '?'}limit=100${last === undefined ? '' : `&after=${encodeURIComponent(last)}`}`,
      options,
    )
    for (const item of page.data) data.push(item)
    if (!page.has_more || page.data.length === 0 || data.length >= most) return { data, hasMore: page.has_more }
  }
}
