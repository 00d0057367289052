/**
 * What a form with a file may say beside it: known fields count wherever they stand, others are named, and what cannot be read is refused.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

type Part = readonly [name: string, value: string | Blob]

function upload(parts: readonly Part[], query = '') {
  const form = new FormData()
  for (const [name, value] of parts) form.append(name, value)
  return service.fetch(`/v1/files${query}`, { method: 'POST', body: form })
}

const FILE: Part = ['file', new File(['{}\n'], 'rows.jsonl')]
const listed = async () => (await service.json<{ data: unknown[] }>('/v1/files')).body.data.length

describe('a form with a file', () => {
  it('has its fields before or after the file', async () => {
    const answers = [
      await upload([['purpose', 'user_data'], FILE]),
      await upload([FILE, ['purpose', 'user_data']]),
      await upload([FILE]),
    ]
    const seen = await Promise.all(
      answers.map(async (answer) => {
        const { purpose, filename } = (await answer.json()) as { purpose: string; filename: string }
        return [answer.status, answer.headers.get('x-trainyard-ignored-fields'), purpose, filename]
      }),
    )
    expect(seen).toEqual([
      [200, null, 'user_data', 'rows.jsonl'],
      [200, null, 'user_data', 'rows.jsonl'],
      [200, null, 'fine-tune', 'rows.jsonl'],
    ])
  })

  it('is answered with the names that were ignored, of the query too', async () => {
    const answer = await upload([['colour', 'red'], FILE, ['mood', 'good']], '?purpose=batch')
    expect([answer.status, answer.headers.get('x-trainyard-ignored-fields')]).toEqual([200, 'purpose, colour, mood'])
    expect(await answer.json()).toMatchObject({ purpose: 'fine-tune' })
  })

  it.each([
    ['a second file', [FILE, FILE], /more than one file/],
    ['too many fields', [FILE, ...Array.from({ length: 21 }, (_, i): Part => [`f${i}`, ''])], /more than 20 fields/],
    ['a field too long', [FILE, ['artifact', 'x'.repeat(5000)]], /"artifact" has more than 4096 bytes/],
    ['no file', [['purpose', 'fine-tune']], /the form has no file/],
  ] as const)('with %s is refused and leaves no file', async (_, parts, words) => {
    const before = await listed()
    const answer = await upload(parts)
    const { error } = (await answer.json()) as { error: { code: string; message: string } }
    expect([answer.status, error.code]).toEqual([400, 'invalid_multipart'])
    expect(error.message).toMatch(words)
    expect(await listed()).toBe(before)
  })

  it('with a purpose that is too long is refused by its name', async () => {
    const before = await listed()
    const answer = await upload([FILE, ['purpose', 'x'.repeat(65)]])
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('purpose')])
    expect(await listed()).toBe(before)
  })
})
