/**
 * `/v1/preview/training-jobs`, `/v1/preview/sft-training-jobs`, `/v1/preview/dpo-training-jobs` and a job's events, as pages or as server-sent events.
 */
import { pageQuerySchema } from '#contract/wire/list.js'
import { createJobQuerySchema } from '#contract/wire/training/plan.js'
import { listTrainingJobsQuerySchema } from '#contract/wire/training-jobs.js'
import { readGroups, readJson, readQuery } from '../body.js'
import type { App, AppOptions, RequestContext } from '../environment.js'
import { sendEvents } from '../event-stream.js'
import { idempotencyKey, isRetry } from '../headers.js'

const PING_MS = 15_000

export function bindTrainingJobs(app: App, options: AppOptions): void {
  const { trainingJobs, trainingPlans } = options.services

  app.post('/v1/preview/training-jobs', async (c) => {
    const isPlan = wantsPlan(c)
    const groups = await readGroups(c, 'createRlJob')
    if (isPlan) return c.json(await trainingPlans.planRl(c.get('principal'), groups, c.req.raw.signal))
    return c.json(await trainingJobs.createRl(c.get('principal'), groups, createHeaders(c)))
  })
  app.post('/v1/preview/sft-training-jobs', async (c) => {
    const isPlan = wantsPlan(c)
    const request = await readJson(c, 'createSftJob')
    if (isPlan) return c.json(await trainingPlans.planSft(c.get('principal'), request, c.req.raw.signal))
    return c.json(await trainingJobs.createSft(c.get('principal'), request, createHeaders(c)))
  })
  app.post('/v1/preview/dpo-training-jobs', async (c) => {
    const isPlan = wantsPlan(c)
    const request = await readJson(c, 'createDpoJob')
    if (isPlan) return c.json(await trainingPlans.planDpo(c.get('principal'), request, c.req.raw.signal))
    return c.json(await trainingJobs.createDpo(c.get('principal'), request, createHeaders(c)))
  })
  app.get('/v1/preview/training-jobs', async (c) =>
    c.json(await trainingJobs.list(c.get('principal'), readQuery(c, listTrainingJobsQuerySchema))),
  )
  app.get('/v1/preview/training-jobs/:training_job_id', async (c) =>
    c.json(await trainingJobs.get(c.get('principal'), c.req.param('training_job_id'))),
  )
  app.post('/v1/preview/training-jobs/:training_job_id/cancel', async (c) =>
    c.json(await trainingJobs.cancel(c.get('principal'), c.req.param('training_job_id'))),
  )
  app.get('/v1/preview/training-jobs/:training_job_id/events', async (c) => {
    const id = c.req.param('training_job_id')
    const query = readQuery(c, pageQuerySchema)
    if (c.req.header('accept')?.includes('text/event-stream') !== true) {
      return c.json(await trainingJobs.events(c.get('principal'), id, query))
    }
    return followEvents(c, id, c.req.header('last-event-id') ?? query.after)
  })

  async function followEvents(c: RequestContext, id: string, after: string | undefined): Promise<Response> {
    const gone = new AbortController()
    const signal = AbortSignal.any([c.req.raw.signal, options.closing, gone.signal])
    // an unknown job or cursor must be a plain 4xx, so they are checked before the stream opens
    await trainingJobs.events(c.get('principal'), id, { after, limit: 1 })
    const events = trainingJobs.follow(c.get('principal'), id, after, signal)
    return sendEvents(c, format(events), { pingMs: PING_MS, onCancel: () => gone.abort() })
  }
}

async function* format(events: AsyncIterable<{ readonly id: string; readonly type: string }>) {
  for await (const event of events) yield { id: event.id, event: event.type, data: JSON.stringify(event) }
}

function wantsPlan(c: RequestContext): boolean {
  return readQuery(c, createJobQuerySchema).plan === true
}

function createHeaders(c: RequestContext) {
  return { idempotencyKey: idempotencyKey(c), isRetry: isRetry(c) }
}
