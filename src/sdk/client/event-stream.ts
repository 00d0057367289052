/**
 * Follows the events of a training job to its end: server-sent events when the server offers them, else polling.
 *
 * Every (re)connection names the last event seen, so nothing is lost or repeated. A broken connection or an overloaded
 * server is retried for a minute after the last success. The caller reads the job once more afterwards: its status decides.
 */

import { AppError } from '#base/errors/errors.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { pageOf, trainingEvent, trainingJob } from './answers.js'
import { requestOf } from './calls.js'
import { type Http, parseAnswer, readJson, sourceOf } from './http.js'
import { isEventStream, readEvents } from './sse.js'

export interface FollowOptions {
  /** Id of the last event already seen. */
  readonly after?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Pause between polls, milliseconds (default 1000, as ART's client). */
  readonly pollMs?: number
  /** How long the server may be away before giving up, milliseconds (default 60 000). */
  readonly patienceMs?: number
  readonly clock?: Clock
  /** Told of each reconnection. */
  readonly onRetry?: (error: AppError) => void
}

/**
 * Yields the job's events, oldest first, until the one that ends it.
 *
 * @throws the signal's reason when aborted; the last connection error after `patienceMs` without an answer
 */
export async function* followEvents(
  http: Http,
  jobId: string,
  options: FollowOptions = {},
): AsyncGenerator<TrainingEvent> {
  const clock = options.clock ?? systemClock
  const pollMs = options.pollMs ?? 1000
  let after = options.after
  let lastAnswerMs = clock.monotonicMs()
  for (;;) {
    let count = 0
    let openedMs = Number.POSITIVE_INFINITY
    const onOpen = (): void => {
      openedMs = clock.monotonicMs()
    }
    try {
      for await (const event of readOnce(http, jobId, { after, signal: options.signal, onOpen })) {
        lastAnswerMs = clock.monotonicMs()
        count += 1
        after = event.id
        yield event
        if (event.type === 'training_ended' || event.type === 'training_failed') return
      }
      lastAnswerMs = clock.monotonicMs()
      // A job that finished before `after` has no event left to wait for.
      if (count === 0 && (await isFinished(http, jobId, options.signal))) return
    } catch (error) {
      const nowMs = clock.monotonicMs()
      // a stream with nothing to say was there until now; one that is cut at once was not
      if (nowMs - openedMs > pollMs) lastAnswerMs = nowMs
      if (!isTransient(error) || nowMs - lastAnswerMs > (options.patienceMs ?? 60_000)) throw error
      options.onRetry?.(error)
    }
    if (count < 100) await http.sleep(pollMs, options.signal)
  }
}

/** One connection or one page. */
async function* readOnce(
  http: Http,
  jobId: string,
  {
    after,
    signal,
    onOpen,
  }: { readonly after: string | undefined; readonly signal: AbortSignal | undefined; readonly onOpen: () => void },
): AsyncGenerator<TrainingEvent> {
  const headers = { accept: 'text/event-stream, application/json;q=0.9' }
  const request = requestOf(
    'GET /v1/preview/training-jobs/{training_job_id}/events',
    { ids: [jobId], query: { after, limit: 100 } },
    // A stream may stay silent for a long gradient step; the server's keep-alive comments hold it open.
    { headers, isLong: true, signal },
  )
  const source = sourceOf(http.baseUrl, request)
  const response = await http.open(request)
  onOpen()
  if (!isEventStream(response)) {
    yield* (await readJson(response, { source, check: pageOf(trainingEvent) })).data
    return
  }
  for await (const message of readEvents(response)) {
    if (message.data !== '') yield parseAnswer(message.data, { source, check: trainingEvent })
  }
}

async function isFinished(http: Http, jobId: string, signal: AbortSignal | undefined): Promise<boolean> {
  const request = requestOf('GET /v1/preview/training-jobs/{training_job_id}', { ids: [jobId] }, { signal })
  const job = await http.json(request, trainingJob)
  return job.status === 'completed' || job.status === 'failed' || job.status === 'cancelled'
}

function isTransient(error: unknown): error is AppError {
  return error instanceof AppError && (error.category === 'unavailable' || error.category === 'rate_limited')
}
