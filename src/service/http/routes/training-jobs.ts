/**
 * Training jobs of each kind, and a job's events, as pages or as server-sent events.
 */
import type { AppOptions } from '../environment.js'
import { connectionOf, sendEvents } from '../event-stream.js'
import { handlers } from '../handlers.js'
import { createHeaders } from '../headers.js'

const PING_MS = 15_000

export function trainingJobHandlers(options: AppOptions) {
  const { trainingJobs, trainingPlans, trainingOptions, trainingSessions } = options.services
  return handlers({
    'POST /v1/preview/training-jobs': async ({ principal, query, body, c }) => {
      const isPlan = query().plan === true
      const groups = await body()
      if (isPlan) return trainingPlans.plan('rl', principal, groups, c.req.raw.signal)
      return trainingJobs.create('rl', principal, groups, createHeaders(c))
    },
    'POST /v1/preview/sft-training-jobs': async ({ principal, query, body, c }) => {
      const isPlan = query().plan === true
      const request = await body()
      if (isPlan) return trainingPlans.plan('sft', principal, request, c.req.raw.signal)
      return trainingJobs.create('sft', principal, request, createHeaders(c))
    },
    'POST /v1/preview/dpo-training-jobs': async ({ principal, query, body, c }) => {
      const isPlan = query().plan === true
      const request = await body()
      if (isPlan) return trainingPlans.plan('dpo', principal, request, c.req.raw.signal)
      return trainingJobs.create('dpo', principal, request, createHeaders(c))
    },
    'GET /v1/preview/training-options': ({ query }) => trainingOptions.list(query()),
    'GET /v1/preview/training-jobs': ({ principal, query }) => trainingJobs.list(principal, query()),
    'GET /v1/preview/training-jobs/{training_job_id}': ({ principal, params }) =>
      trainingJobs.get(principal, params.training_job_id),
    'GET /v1/preview/training-sessions': ({ principal, query }) => trainingSessions.list(principal, query()),
    'GET /v1/preview/training-sessions/{training_run_id}': ({ principal, params }) =>
      trainingSessions.get(principal, params.training_run_id),
    'POST /v1/preview/training-sessions/{training_run_id}/end': ({ principal, params }) =>
      trainingSessions.end(principal, params.training_run_id),
    'POST /v1/preview/training-jobs/{training_job_id}/cancel': ({ principal, params }) =>
      trainingJobs.cancel(principal, params.training_job_id),
    'POST /v1/preview/training-jobs/{training_job_id}/stop': ({ principal, params }) =>
      trainingJobs.stop(principal, params.training_job_id),
    'GET /v1/preview/training-jobs/{training_job_id}/events': async ({ principal, params, query, c }) => {
      const id = params.training_job_id
      const page = query()
      if (c.req.header('accept')?.includes('text/event-stream') !== true)
        return trainingJobs.events(principal, id, page)
      const after = c.req.header('last-event-id') ?? page.after
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, options.closing, gone.signal])
      // an unknown job or cursor must be a plain 4xx, so they are checked before the stream opens
      await trainingJobs.events(principal, id, { after, limit: 1 })
      options.eventStreams.enter(connectionOf(c), principal.entity)
      const events = trainingJobs.follow(principal, id, after, signal)
      return sendEvents(c, format(events), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
  })
}

async function* format(events: AsyncIterable<{ readonly id: string; readonly type: string }>) {
  for await (const event of events) yield { id: event.id, event: event.type, data: JSON.stringify(event) }
}
