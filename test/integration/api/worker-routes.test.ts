/**
 * The worker's routes are open to nobody but the holder of a lease: whoever has none is refused before a body is read or a
 * blob is looked at, and learns nothing of either.
 */
import { createHash } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'

let service: TestService
let job: TrainingJob
beforeAll(async () => {
  service = await createTestService()
  const model = await service.createModel()
  const submitted = await service.json<TrainingJob>('/v1/preview/training-jobs', {
    json: {
      model_id: model,
      trajectory_groups: [sampleGroup()],
      experimental_config: { stand_in: { steps: 100_000, delay_ms: 100 } },
    },
  })
  do job = (await service.json<TrainingJob>(`/v1/preview/training-jobs/${submitted.body.id}`)).body
  while (job.status !== 'running')
})
afterAll(() => service.dispose())

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')
const EMPTY = '0'.repeat(64)
const ROUTES = [
  ['GET', ''],
  ['GET', '/input'],
  ['GET', '/parent/adapter_model.safetensors'],
  ['GET', '/parent/nothing'],
  ['POST', '/heartbeat'],
  ['POST', '/events'],
  ['PUT', '/files/adapter_model.safetensors'],
  ['PUT', '/files/nothing'],
  ['POST', '/complete'],
  ['POST', '/fail'],
] as const
const STRANGERS = [
  ['nobody', {}, 401],
  ['a wrong token', { authorization: 'Bearer wrong', 'x-trainyard-attempt': '1' }, 401],
  ['a token that is none', { authorization: 'Basic wrong', 'x-trainyard-attempt': '1' }, 401],
  ['a wrong attempt', { authorization: 'Bearer wrong', 'x-trainyard-attempt': '2' }, 409],
] as const

/** Sends the head of a request and never its body; answers with what comes back all the same. */
function sendHead(method: string, path: string, headers: object): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(service.url + path, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(method === 'GET' ? {} : { 'content-length': 1e6 }),
        ...headers,
      },
    })
    request.once('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.once('end', () => {
        request.destroy()
        resolve({ status: response.statusCode ?? 0, text })
      })
    })
    request.once('error', reject)
    request.flushHeaders()
    if (method === 'GET') request.end()
  })
}

describe.each(STRANGERS)('%s', (_, headers, status) => {
  it.each(ROUTES)('is refused at %s %s before a body is there', async (method, path) => {
    const answer = await sendHead(method, `/internal/worker/jobs/${job.id}${path}`, headers)
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining('"error"')])
  })

  it('cannot ask which blobs exist', async () => {
    const body = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'
    await service.fetch('/v1/files?filename=x.jsonl', { method: 'POST', body })
    const ask = async (sha256: string) => {
      const answer = await service.json(`/internal/worker/jobs/${job.id}/complete`, {
        json: { files: { 'adapter_model.safetensors': { sha256, size_bytes: 1 } }, metrics: {} },
        headers: { authorization: '', ...headers },
      })
      return [answer.status, { ...answer.body, request_id: '' }]
    }
    expect(await ask(digestOf(body))).toEqual(await ask(EMPTY))
    expect(await ask('../../trainyard.sqlite3')).toEqual(await ask(EMPTY))
  })

  it('cannot ask which jobs exist without a token', async () => {
    if ('authorization' in headers && headers.authorization.startsWith('Bearer')) return
    const answer = await sendHead('GET', '/internal/worker/jobs/01890000-0000-7000-8000-000000000000', headers)
    expect(answer.status).toBe(401)
  })
})

it('the job goes on', async () => {
  const { body } = await service.json<TrainingJob>(`/v1/preview/training-jobs/${job.id}`)
  expect(body.status).toBe('running')
})
