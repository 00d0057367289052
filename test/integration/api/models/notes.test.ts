/**
 * Notes of models: written, read, found by the search of the list, gone with the model, and refused where they say nothing or too much.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const MODELS = '/v1/preview/models'
const put = (id: string, json: object) => service.json(`${MODELS}/${id}/note`, { method: 'PUT', json })
const found = async (text: string): Promise<readonly string[]> => {
  const path = `${MODELS}?query=${encodeURIComponent(text)}&include=summary`
  const { body } = await service.json<{ data: { name: string; summary: { tags: string[] } }[] }>(path)
  return body.data.map(({ name, summary }) => `${name} ${summary.tags.join()}`)
}

it('a note is written whole, stands in the list, and is found', async () => {
  const [noted, plain] = [await service.createModel('noted'), await service.createModel('plain')]
  expect((await service.json(`${MODELS}/${noted}/note`)).body).toEqual({ model_id: noted, description: '', tags: [] })
  const note = { description: ' Asks back; reward v2 ', tags: ['best', 'v2', 'best'] }
  expect(await put(noted, note)).toEqual({
    status: 200,
    body: { model_id: noted, description: 'Asks back; reward v2', tags: ['best', 'v2'] },
  })
  expect(await found('ASKS back')).toEqual(['noted best,v2'])
  expect(await found('best')).toEqual(['noted best,v2'])
  expect(await found('plain')).toEqual(['plain '])
  expect((await put(plain, { description: '', tags: ['best'] })).status).toBe(200)
  expect(await found('best')).toHaveLength(2)
  expect((await put(noted, { description: '', tags: [] })).status).toBe(200)
  expect(await found('best')).toEqual(['plain best'])
  expect((await service.fetch(`${MODELS}/${plain}`, { method: 'DELETE' })).status).toBe(200)
  expect((await service.fetch(`${MODELS}/${plain}/note`)).status).toBe(404)
  const rows = await service.openRows()
  try {
    expect(await rows.db.selectFrom('model_notes').selectAll().execute()).toEqual([])
  } finally {
    await rows.close()
  }
})

it.each([
  [{ tags: [] }, 'description'],
  [{ description: 'x'.repeat(2001), tags: [] }, 'description'],
  [{ description: '', tags: [' '] }, 'tags'],
  [{ description: '', tags: Array.from({ length: 17 }, (_, i) => `t${i}`) }, 'tags'],
])('%#: refused by name', async (json, name) => {
  const { status, body } = await put(await service.createModel(`refused by ${JSON.stringify(json).length}`), json)
  expect(status).toBe(422)
  expect(JSON.stringify(body)).toContain(name)
})
