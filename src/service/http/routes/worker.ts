/**
 * The worker protocol of `contract/processes/worker.ts`. Not behind API keys: each request proves its attempt. Only who asks for a job
 * (`contract/processes/worker-claim.ts`) does so with a key.
 */
import type { MiddlewareHandler } from 'hono'
import { InvalidRequestError } from '#base/errors/errors.js'
import { decodeFrame } from '#base/util/frame.js'
import { sessionReportSchema } from '#contract/processes/training-session.js'
import { MAX_CHECKPOINT_FILE_BYTES, MAX_ROLLOUTS_BYTES } from '#contract/processes/worker.js'
import { parseWith } from '#service/bodies/parse-body.js'
import { parseBearer } from '#service/operations/access/auth.js'
import { toAttemptClaim } from '#service/operations/training/worker-calls.js'
import { readBytes, withBody } from '../body.js'
import type { AppEnvironment, AppOptions, RequestContext } from '../environment.js'
import { mayLink, rangeStart, sendBlob, sendModelFile } from '../file-answer.js'
import { handlers } from '../handlers.js'
import { noteOwner } from '../owner.js'

const BYTES = { 'content-type': 'application/octet-stream' }
/** Log-probabilities of the rows of one request. */
const MAX_REPORT_BYTES = 64 * 1024 ** 2
const LINES = 'application/jsonl'

/** Lease and token before everything else: a stranger makes the server read no body and learns nothing of its blobs. */
export function requireLease({ services }: AppOptions): MiddlewareHandler<AppEnvironment> {
  return async function authorizeAttempt(c, next) {
    const isJob = c.req.param('session_id') === undefined
    const { owner } = await (isJob ? services.workerApi : services.sessionApi).authorize(claimOf(c))
    noteOwner(c, owner)
    await next()
  }
}

export function workerHandlers({ services: { workerApi, sessionApi } }: AppOptions) {
  return handlers({
    'GET /internal/worker/jobs/{job_id}': ({ c }) => workerApi.job(claimOf(c)),
    'GET /internal/worker/jobs/{job_id}/input': async ({ c }) =>
      sendBlob(c, await workerApi.openInput(claimOf(c), mayLink(c)), LINES),
    'GET /internal/worker/jobs/{job_id}/validation': async ({ c }) =>
      sendBlob(c, await workerApi.openValidation(claimOf(c), mayLink(c)), LINES),
    'GET /internal/worker/jobs/{job_id}/parent/{file}': async ({ params, c }) =>
      sendBlob(c, await workerApi.openParentFile(claimOf(c), params.file, mayLink(c)), BYTES['content-type']),
    'GET /internal/worker/jobs/{job_id}/reference/{file}': async ({ params, c }) =>
      sendBlob(c, await workerApi.openReferenceFile(claimOf(c), params.file, mayLink(c)), BYTES['content-type']),
    'GET /internal/worker/jobs/{job_id}/base-model': ({ c }) => workerApi.baseModelFiles(claimOf(c)),
    'GET /internal/worker/jobs/{job_id}/base-model/{+file}': async ({ params, c }) =>
      sendModelFile(c, await workerApi.openBaseModelFile(claimOf(c), params.file, rangeStart(c))),
    'POST /internal/worker/jobs/{job_id}/heartbeat': async ({ body, c }) =>
      workerApi.heartbeat(claimOf(c), await body()),
    'POST /internal/worker/jobs/{job_id}/events': async ({ body, c }) => {
      await workerApi.appendEvents(claimOf(c), await body())
      return {}
    },
    'PUT /internal/worker/jobs/{job_id}/files/{file}': async ({ params, c }) => {
      await workerApi.putFile(claimOf(c), params.file, readBytes(c, MAX_CHECKPOINT_FILE_BYTES), digestOf(c))
      return {}
    },
    'PUT /internal/worker/jobs/{job_id}/resume': async ({ c }) => {
      const point = { sha256: digestOf(c), eventCount: countOf(c, 'x-trainyard-events') }
      await workerApi.putResumePoint(claimOf(c), readBytes(c, MAX_CHECKPOINT_FILE_BYTES), point)
      return {}
    },
    'PUT /internal/worker/jobs/{job_id}/rollouts': async ({ c }) => {
      const counts = { groups: countOf(c, 'x-trainyard-groups'), trajectories: countOf(c, 'x-trainyard-trajectories') }
      const notes = { ...counts, sha256: digestOf(c) }
      await workerApi.putRollouts(claimOf(c), readBytes(c, MAX_ROLLOUTS_BYTES), notes)
      return {}
    },
    'GET /internal/worker/jobs/{job_id}/resume': async ({ c }) =>
      sendBlob(c, await workerApi.openResumePoint(claimOf(c), mayLink(c)), BYTES['content-type']),
    'POST /internal/worker/jobs/{job_id}/complete': async ({ body, c }) => {
      await workerApi.complete(claimOf(c), await body())
      return {}
    },
    'POST /internal/worker/jobs/{job_id}/fail': async ({ body, c }) => {
      await workerApi.fail(claimOf(c), await body())
      return {}
    },
    'GET /internal/worker/sessions/{session_id}': ({ c }) => sessionApi.session(claimOf(c)),
    'GET /internal/worker/sessions/{session_id}/base-model': ({ c }) => sessionApi.baseModelFiles(claimOf(c)),
    'GET /internal/worker/sessions/{session_id}/base-model/{+file}': async ({ params, c }) =>
      sendModelFile(c, await sessionApi.openBaseModelFile(claimOf(c), params.file, rangeStart(c))),
    'GET /internal/worker/sessions/{session_id}/files/{file}': async ({ params, c }) =>
      sendBlob(c, await sessionApi.openFile(claimOf(c), params.file, mayLink(c)), BYTES['content-type']),
    'PUT /internal/worker/sessions/{session_id}/files/{file}': async ({ params, c }) => {
      await sessionApi.putFile(claimOf(c), params.file, readBytes(c, MAX_CHECKPOINT_FILE_BYTES))
      return {}
    },
    'POST /internal/worker/sessions/{session_id}/heartbeat': async ({ body, c }) =>
      sessionApi.heartbeat(claimOf(c), await body()),
    'POST /internal/worker/sessions/{session_id}/turn': async ({ c }) => {
      const frame = await withBody(c, { maxBytes: MAX_REPORT_BYTES }, async (body) => {
        const { head, bytes } = decodeFrame(await c.get('bodies').bytesOf(body))
        return sessionApi.turn(claimOf(c), parseWith(sessionReportSchema, head, 'body'), bytes)
      })
      return c.body(Buffer.from(frame), 200, BYTES)
    },
  })
}

function countOf(c: RequestContext, name: string): number {
  const text = c.req.header(name) ?? ''
  if (/^\d{1,12}$/.test(text)) return Number(text)
  throw new InvalidRequestError('invalid_value', `header ${name} must be a number`)
}

function digestOf(c: RequestContext): string {
  const sha256 = c.req.header('x-content-sha256') ?? ''
  if (/^[0-9a-f]{64}$/.test(sha256)) return sha256
  throw new InvalidRequestError('invalid_value', 'header x-content-sha256 must be 64 lower-case hex digits')
}

function claimOf(c: RequestContext) {
  const token = parseBearer(c.req.header('authorization') ?? '')
  return toAttemptClaim(
    c.req.param('job_id') ?? c.req.param('session_id') ?? '',
    c.req.header('x-trainyard-attempt'),
    token,
  )
}
