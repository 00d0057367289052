/**
 * The worker protocol of `contract/processes/worker.ts` below `/internal/worker`. Not behind API keys: each request proves its attempt.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { MAX_CHECKPOINT_FILE_BYTES } from '#contract/processes/worker.js'
import { parseBearer } from '#service/operations/access/auth.js'
import { toAttemptClaim } from '#service/operations/training/worker-api.js'
import { readBytes, readJson } from '../body.js'
import type { App, AppOptions, RequestContext } from '../environment.js'
import { sendFile } from '../file-answer.js'

export function bindWorker(app: App, options: AppOptions): void {
  const { workerApi } = options.services
  const root = '/internal/worker/jobs/:job_id' as const
  // Lease and token before everything else: a stranger makes the server read no body and learns nothing of its blobs.
  app.use(`${root}/*`, async function requireLease(c, next) {
    await workerApi.authorize(claimOf(c))
    await next()
  })

  app.get(root, async (c) => c.json(await workerApi.job(claimOf(c))))
  app.get(`${root}/input`, async (c) =>
    sendFile(c, await workerApi.openInput(claimOf(c)), {
      'content-type': 'application/jsonl',
    }),
  )
  app.get(`${root}/validation`, async (c) =>
    sendFile(c, await workerApi.openValidation(claimOf(c)), {
      'content-type': 'application/jsonl',
    }),
  )
  app.get(`${root}/parent/:file`, async (c) => {
    const { stream, sha256 } = await workerApi.openParentFile(claimOf(c), c.req.param('file'))
    return sendFile(c, stream, {
      'content-type': 'application/octet-stream',
      'x-content-sha256': sha256,
    })
  })
  app.get(`${root}/reference/:file`, async (c) => {
    const { stream, sha256 } = await workerApi.openReferenceFile(claimOf(c), c.req.param('file'))
    return sendFile(c, stream, {
      'content-type': 'application/octet-stream',
      'x-content-sha256': sha256,
    })
  })
  app.post(`${root}/heartbeat`, async (c) =>
    c.json(await workerApi.heartbeat(claimOf(c), await readJson(c, 'workerHeartbeat'))),
  )
  app.post(`${root}/events`, async (c) => {
    await workerApi.appendEvents(claimOf(c), await readJson(c, 'workerEvents'))
    return c.json({})
  })
  app.put(`${root}/files/:file`, async (c) => {
    await workerApi.putFile(claimOf(c), c.req.param('file'), readBytes(c, MAX_CHECKPOINT_FILE_BYTES), digestOf(c))
    return c.json({})
  })
  app.put(`${root}/resume`, async (c) => {
    const events = c.req.header('x-trainyard-events') ?? ''
    if (!/^\d{1,12}$/.test(events)) {
      throw new InvalidRequestError('invalid_value', 'header x-trainyard-events must be a number of events')
    }
    const point = { sha256: digestOf(c), eventCount: Number(events) }
    await workerApi.putResumePoint(claimOf(c), readBytes(c, MAX_CHECKPOINT_FILE_BYTES), point)
    return c.json({})
  })
  app.get(`${root}/resume`, async (c) =>
    sendFile(c, await workerApi.openResumePoint(claimOf(c)), {
      'content-type': 'application/octet-stream',
    }),
  )
  app.post(`${root}/complete`, async (c) => {
    await workerApi.complete(claimOf(c), await readJson(c, 'workerCompletion'))
    return c.json({})
  })
  app.post(`${root}/fail`, async (c) => {
    await workerApi.fail(claimOf(c), await readJson(c, 'workerFailure'))
    return c.json({})
  })
}

function digestOf(c: RequestContext): string {
  const sha256 = c.req.header('x-content-sha256') ?? ''
  if (/^[0-9a-f]{64}$/.test(sha256)) return sha256
  throw new InvalidRequestError('invalid_value', 'header x-content-sha256 must be 64 lower-case hex digits')
}

function claimOf(c: RequestContext) {
  const token = parseBearer(c.req.header('authorization') ?? '')
  return toAttemptClaim(c.req.param('job_id') ?? '', c.req.header('x-trainyard-attempt'), token)
}
