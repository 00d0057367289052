/**
 * Requests for answers as they go through to vLLM, with the adapter in its words, and its answers as they come back.
 */
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { readText } from './http-text.js'
import { NO_CHANGE, type VllmAdapters } from './vllm-adapters.js'

export interface VllmRequestsOptions {
  /** Of the vLLM that runs. */
  readonly url: () => string
  /** Adapters that it was given. */
  readonly given: Pick<VllmAdapters, 'take'>
  /** Gives it once more what every request needs. */
  readonly prepare: () => Promise<void>
  /** It is the build for processors. */
  readonly isOnProcessors: boolean
}

/** @returns what answers a request */
export function createVllmRequests({
  url,
  given,
  prepare,
  isOnProcessors,
}: VllmRequestsOptions): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  let preparing: Promise<void> | null = null

  /** For all requests at once that find it gone. */
  function prepareAgain(): Promise<void> {
    preparing ??= prepare().finally(() => {
      preparing = null
    })
    return preparing
  }

  return async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const digest = request.headers['x-trainyard-adapter']
    const body = await readText(request)
    if (isOnProcessors && ASKS_FOR_PROMPT.test(body)) throw noPromptLogprobs()
    if (typeof digest !== 'string') {
      let answered = await send(url(), isOnProcessors ? named(body, NO_CHANGE) : body, response)
      if (answered.statusCode === 404 && isOnProcessors) {
        answered.resume()
        await prepareAgain()
        answered = await send(url(), named(body, NO_CHANGE), response)
      }
      return pass(answered, response)
    }
    const first = await given.take(digest)
    try {
      const answered = await send(url(), named(body, first.name), response)
      if (answered.statusCode !== 404) return await pass(answered, response)
      // dropped by vLLM, whatever the reason: once more, then it is said
      answered.resume()
      first.forget()
    } finally {
      first.release()
    }
    const again = await given.take(digest)
    try {
      await pass(await send(url(), named(body, again.name), response), response)
    } finally {
      again.release()
    }
  }
}

async function send(url: string, body: string, response: ServerResponse): Promise<IncomingMessage> {
  // its end has been told of already, and is not told of again
  if (response.destroyed) throw new AppError('unavailable', 'client_gone', 'whoever asked has hung up')
  return new Promise((resolve, reject) => {
    const request = requestHttp(new URL('/inference/v1/generate', url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    })
    request.once('response', resolve)
    request.once('error', (cause) =>
      reject(new AppError('unavailable', 'engine_restarting', `vLLM does not answer: ${cause.message}`, { cause })),
    )
    // whoever asked is gone: vLLM stops when its connection ends
    response.once('close', () => request.destroy())
    request.end(body)
  })
}

async function pass(answered: IncomingMessage, response: ServerResponse): Promise<void> {
  if (response.destroyed) {
    answered.destroy()
    return
  }
  response.writeHead(answered.statusCode ?? 500, { 'content-type': answered.headers['content-type'] ?? '' })
  await new Promise<void>((resolve) => {
    answered.pipe(response)
    // cut short by vLLM's end: so is ours, and the host sees it
    answered.once('error', () => response.destroy())
    answered.once('aborted', () => response.destroy())
    response.once('close', resolve)
  })
}

/** Text of a client stands in strings, where its quotes are escaped. */
const ASKS_FOR_PROMPT = /"prompt_logprobs":\s*-?\d/

/**
 * Beside other requests the engine ends at it, with all of them (0.32): products with adapters of a prompt count rows as those
 * of answers.
 */
function noPromptLogprobs(): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_by_engine',
    'prompt_logprobs are not to be had where this model is served by vLLM on processors',
    { param: 'prompt_logprobs', hint: "leave prompt_logprobs out, or serve the model with Trainyard's own engine" },
  )
}

/**
 * A request's body with an adapter's name in it. The field stands behind those of the request's own, as plain text as we wrote
 * it.
 */
function named(body: string, name: string): string {
  const at = body.lastIndexOf('"model":')
  const end = body.indexOf(',', at)
  return `${body.slice(0, at)}"model":${JSON.stringify(name)}${body.slice(end)}`
}
