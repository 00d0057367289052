/**
 * Pages of OpenAI's fine-tuning jobs: every job once, newest first, `has_more` true exactly while there are more, with and without
 * metadata to look for.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const JOBS = '/v1/fine_tuning/jobs'
/** Of jobs 0 to 6, the even ones. */
const EVEN = 'metadata[team]=even'

interface Jobs {
  readonly data: readonly { readonly id: string; readonly metadata: { readonly number: string } | null }[]
  readonly has_more: boolean
}

let service: TestService
beforeAll(async () => {
  service = await createTestService()
  const row = JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: role })) })
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([`${row}\n`]), 'rows.jsonl')
  const file = (await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string }
  for (let i = 0; i < 7; i += 1) {
    const metadata = { team: i % 2 === 0 ? 'even' : 'odd', number: String(i) }
    const json = { model: 'trainyard/tiny-random', training_file: file.id, metadata }
    expect((await service.json(JOBS, { json })).status).toBe(200)
  }
})
afterAll(() => service.dispose())

/** The numbers of all jobs, and how many each page had. */
async function walk(query: string, limit: number): Promise<{ numbers: number[]; sizes: number[] }> {
  const numbers: number[] = []
  const sizes: number[] = []
  for (let after = ''; ; ) {
    const { status, body } = await service.json<Jobs>(`${JOBS}?limit=${limit}${query}${after}`)
    expect(status).toBe(200)
    numbers.push(...body.data.map((job) => Number(job.metadata?.number)))
    sizes.push(body.data.length)
    if (!body.has_more) return { numbers, sizes }
    after = `&after=${body.data.at(-1)?.id}`
  }
}

describe('pages of fine-tuning jobs', () => {
  it.each([
    ['all in one page', '', 100, [7]],
    ['as many as a page holds', '', 7, [7]],
    ['one page less one', '', 6, [6, 1]],
    ['one by one', '', 1, [1, 1, 1, 1, 1, 1, 1]],
    ['by metadata, all', `&${EVEN}`, 100, [4]],
    ['by metadata, as many as a page holds', `&${EVEN}`, 4, [4]],
    ['by metadata, one by one', `&${EVEN}`, 1, [1, 1, 1, 1]],
    ['by metadata that none has', '&metadata[team]=none', 5, [0]],
    ['of those without metadata', '&metadata=null', 5, [0]],
  ])('%s', async (_, query, limit, sizes) => {
    const found = await walk(query, limit)
    const newestFirst = [6, 5, 4, 3, 2, 1, 0].filter((number) => query === '' || number % 2 === 0)
    expect(found).toEqual({ numbers: sizes[0] === 0 ? [] : newestFirst, sizes })
  })
})
