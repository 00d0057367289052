/**
 * `GET /metrics`: vLLM's names and the identities of its own test, HTTP and jobs. Stand-in engine: a token is a character.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

/** Values by name and labels as written. */
async function scrape(): Promise<Map<string, number>> {
  const response = await fetch(`${service.url}/metrics`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
}

const LABELS = 'model_name="trainyard/tiny-random",engine="0"'
const chat = (content: string, more: object = {}, signal?: AbortSignal) =>
  service.fetch('/v1/chat/completions', {
    json: { messages: [{ role: 'user', content }], max_tokens: 5, ...more },
    ...(signal === undefined ? {} : { signal }),
  })

it('holds vLLM’s identities for N requests of P prompt and T output tokens', async () => {
  const [n, p, t] = [4, 'user:hello!'.length, 5]
  await Promise.all(Array.from({ length: n }, async () => (await chat('hello!')).json()))
  const values = await scrape()
  const of = (name: string, labels = LABELS) => values.get(`vllm:${name}{${labels}}`)
  expect(of('prompt_tokens_total')).toBe(n * p)
  expect(of('prefix_cache_queries_total')).toBe(n * p)
  expect(of('generation_tokens_total')).toBe(n * t)
  expect(of('inter_token_latency_seconds_count')).toBe(n * (t - 1))
  expect(of('time_to_first_token_seconds_count')).toBe(n)
  expect(of('iteration_tokens_total_sum')).toBe(n * (p + t))
  expect(of('e2e_request_latency_seconds_count')).toBe(n)
  expect(of('request_prompt_tokens_sum')).toBe(n * p)
  expect(of('request_generation_tokens_sum')).toBe(n * t)
  expect(of('request_params_max_tokens_sum')).toBe(n * 5)
  expect(of('request_params_n_sum')).toBe(n)
  for (const time of ['queue', 'inference', 'prefill', 'decode'])
    expect(of(`request_${time}_time_seconds_count`)).toBe(n)
  expect(of('request_success_total', `${LABELS},finished_reason="length"`)).toBe(n)
  expect([of('num_requests_running'), of('num_requests_waiting')]).toEqual([0, 0])
  expect([of('kv_cache_usage_perc'), of('num_preemptions_total')]).toEqual([0, 0])
  expect(of('e2e_request_latency_seconds_bucket', `le="7680",${LABELS}`)).toBe(n)
})

it('shows a request while it runs, and that its client left', async () => {
  const controller = new AbortController()
  const response = await chat('FOREVER', { stream: true, max_tokens: 2000 }, controller.signal)
  await response.body?.getReader().read()
  const running = async () => (await scrape()).get(`vllm:num_requests_running{${LABELS}}`)
  expect(await running()).toBe(1)
  expect((await scrape()).get(`vllm:kv_cache_usage_perc{${LABELS}}`)).toBeGreaterThan(0)
  controller.abort()
  await expect.poll(running, { timeout: 30_000 }).toBe(0)
  const values = await scrape()
  expect(values.get(`vllm:request_success_total{${LABELS},finished_reason="abort"}`)).toBe(1)
})

it('a refused request never was in the engine; a dead engine’s requests ended by error', async () => {
  const ended = async (reason: string) =>
    (await scrape()).get(`vllm:request_success_total{${LABELS},finished_reason="${reason}"}`) ?? 0
  const before = await ended('error')
  expect((await chat('x'.repeat(4000))).status).toBe(400)
  expect(await ended('error')).toBe(before)
  expect((await chat('CRASH')).status).toBe(503)
  expect(await ended('error')).toBe(before + 1)
})

it('counts HTTP requests by route, never by path, and jobs by status', async () => {
  await service.fetch('/v1/preview/models/none')
  await service.fetch('/no/such/path')
  await service.fetch('/v1/preview/models', { method: 'INVENTED' })
  const modelId = await service.createModel('counted')
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: modelId, trajectory_groups: [sampleGroup()] },
  })
  await service.waitForJob(body.id)
  const values = await scrape()
  const http = (method: string, handler: string, status: number) =>
    values.get(`http_requests_total{method="${method}",handler="${handler}",status="${status}"}`)
  expect(http('GET', '/v1/preview/models/:model_id', 404)).toBe(1)
  expect(http('GET', 'none', 404)).toBe(1)
  expect(http('POST', '/v1/preview/models', 200)).toBe(1)
  expect(http('POST', '/v1/chat/completions', 200)).toBeGreaterThan(0)
  expect(values.get('trainyard_training_jobs{status="completed"}')).toBe(1)
  // an alert compares with what is there: none is 0, not nothing
  for (const status of ['queued', 'running', 'failed', 'cancelled']) {
    expect(values.get(`trainyard_training_jobs{status="${status}"}`)).toBe(0)
  }
  expect(values.get('trainyard_data_directory_free_bytes')).toBeGreaterThan(0)
  expect([...values.keys()].some((key) => key.startsWith('process_cpu_seconds_total'))).toBe(true)
  expect([...values.keys()].some((key) => key.includes('INVENTED') || key.includes('such'))).toBe(false)
})
