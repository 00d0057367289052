/**
 * OpenAI's `/v1/fine_tuning/jobs`.
 */
import { fineTuningPageQuerySchema } from '#contract/wire/compatible/fine-tuning.js'
import { readJson, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { idempotencyKey, isRetry } from '../headers.js'

export function bindFineTuning(app: App, options: AppOptions): void {
  const { fineTuning } = options.services
  const root = '/v1/fine_tuning/jobs' as const
  const one = `${root}/:fine_tuning_job_id` as const

  app.post(root, async (c) => {
    const request = await readJson(c, 'createFineTuningJob')
    const headers = { idempotencyKey: idempotencyKey(c), isRetry: isRetry(c) }
    return c.json(await fineTuning.create(c.get('principal'), request, headers))
  })
  app.get(root, async (c) => c.json(await fineTuning.list(c.get('principal'), readQuery(c, fineTuningPageQuerySchema))))
  app.get(one, async (c) => c.json(await fineTuning.get(c.get('principal'), c.req.param('fine_tuning_job_id'))))
  app.post(`${one}/cancel`, async (c) =>
    c.json(await fineTuning.cancel(c.get('principal'), c.req.param('fine_tuning_job_id'))),
  )
  app.get(`${one}/events`, async (c) => {
    const query = readQuery(c, fineTuningPageQuerySchema)
    return c.json(await fineTuning.events(c.get('principal'), c.req.param('fine_tuning_job_id'), query))
  })
  app.get(`${one}/checkpoints`, async (c) => {
    const query = readQuery(c, fineTuningPageQuerySchema)
    return c.json(await fineTuning.checkpoints(c.get('principal'), c.req.param('fine_tuning_job_id'), query))
  })
}
