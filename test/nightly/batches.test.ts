/**
 * A batch as large as one may be outlives two kills of its server: every line is answered, and none twice.
 */
import { rm } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { STAND_INS } from '../support/service/create-test-service.js'
import { startKillableServer } from '../support/service/killable-server.js'
import { temporaryDirectory } from '../support/temporary-directory.js'
import { until } from '../support/until.js'

const LINES = 50_000
/** With one core that others use, too. */
const MOST_MS = 3 * 3_600_000

interface Batch {
  readonly id: string
  readonly status: string
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number }
  readonly output_file_id: string | null
}

test('50,000 lines, two kills', { timeout: MOST_MS }, async () => {
  const dataDir = await temporaryDirectory()
  const start = (apiKey?: string) =>
    startKillableServer({ dataDir, seams: { entryPaths: STAND_INS }, ...(apiKey === undefined ? {} : { apiKey }) })
  let server = await start()
  const line = (n: number) => ({
    custom_id: `line ${n}`,
    method: 'POST',
    url: '/v1/completions',
    body: { prompt: `${n}`, max_tokens: 8 },
  })
  const body = Array.from({ length: LINES }, (_, n) => JSON.stringify(line(n))).join('\n')
  const upload = await fetch(`${server.url}/v1/files?filename=requests.jsonl&purpose=batch`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}` },
    body,
  })
  const { id: file } = (await upload.json()) as { id: string }
  const request = { input_file_id: file, endpoint: '/v1/completions', completion_window: '24h' }
  const { id } = await server.call<Batch>('/v1/batches', request)
  const read = () => server.call<Batch>(`/v1/batches/${id}`)
  for (const part of [0.2, 0.6]) {
    await until(async () => (await read()).request_counts.completed > part * LINES, `${part} of the lines`, MOST_MS)
    await server.kill('SIGKILL')
    server = await start(server.apiKey)
  }
  const batch = await until(
    async () => {
      const now = await read()
      return now.status === 'completed' && now
    },
    'the end of the batch',
    MOST_MS,
  )
  expect(batch.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 })
  const text = await (await server.fetch(`/v1/files/${batch.output_file_id}/content`)).text()
  const answered = text
    .trimEnd()
    .split('\n')
    .map((each) => JSON.parse(each) as { custom_id: string; response: { body: { choices: { text: string }[] } } })
  expect(answered).toHaveLength(LINES)
  const found = new Map(answered.map(({ custom_id: at, response }) => [at, response.body.choices[0]?.text]))
  for (let n = 0; n < LINES; n++) expect(found.get(`line ${n}`)).toBe(`base:${n}`.slice(0, 8))
  await server.kill('SIGTERM')
  await rm(dataDir, { recursive: true, force: true })
})
