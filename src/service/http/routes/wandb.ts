/**
 * W&B's client: `POST /graphql`, the stream of a run's files, and signed addresses for bytes. The key comes as HTTP Basic.
 * What it logged is read with the model, below `/v1/preview/models/{model_id}/runs`.
 */
import { pageQuerySchema } from '#contract/wire/list.js'
import { readBytes, readJson, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'

export function bindWandb(app: App, options: AppOptions): void {
  const { wandb, modelRuns } = options.services

  app.post('/graphql', async (c) => {
    const request = await readJson(c, 'graphql')
    const answer = await wandb.graphql(
      c.get('principal'),
      { query: request.query, variables: request.variables ?? {}, operationName: request.operationName ?? null },
      new URL(c.req.url).origin,
    )
    return c.json(answer)
  })
  app.post('/files/:entity/:project/:run/file_stream', async (c) => {
    await wandb.stream(c.get('principal'), c.req.param(), await readJson(c, 'fileStream'))
    return c.json({ limits: {} })
  })
  app.put('/wandb/storage', async (c) => {
    await wandb.put(c.req.query('token') ?? '', readBytes(c, c.get('bodies').limits.uploadBytes))
    return c.json({})
  })
  app.get('/wandb/storage', async (c) => {
    const { bytes } = await wandb.open(c.req.query('token') ?? '')
    const headers = { 'content-type': 'application/octet-stream' }
    if (bytes instanceof Uint8Array) return c.body(Buffer.from(bytes), 200, headers)
    return sendFile(c, bytes, headers)
  })
  app.get('/v1/preview/models/:model_id/runs', async (c) =>
    c.json(await modelRuns.list(c.get('principal'), c.req.param('model_id'), readQuery(c, pageQuerySchema))),
  )
  app.get('/v1/preview/models/:model_id/runs/:run_id/history', async (c) => {
    const { model_id: modelId, run_id: runId } = c.req.param()
    return c.json(await modelRuns.history(c.get('principal'), modelId, runId, readQuery(c, pageQuerySchema)))
  })
}
