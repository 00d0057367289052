/**
 * References of an input to items that are kept: how often they are looked up, and how many there may be.
 */
import { expect, it } from 'vitest'
import { toInputItems } from '#plugins/responses/response-input.js'
import type { InputItem } from '#plugins/responses/wire.js'

const referenceTo = (id: string): InputItem => ({ type: 'item_reference', id })
const itemOf = (id: string): InputItem => ({ type: 'message', role: 'user', content: id })
const { signal } = new AbortController()

it('each item is looked up once, however often it is referred to', async () => {
  const asked: string[] = []
  const find = async (id: string): Promise<InputItem> => {
    asked.push(id)
    return itemOf(id)
  }
  const input = Array.from({ length: 3000 }, (_, i) => referenceTo(`msg_${i % 1000}`))
  const items = await toInputItems([itemOf('first'), ...input], find, signal)
  expect(items).toEqual([itemOf('first'), ...input.map(({ id }) => itemOf(String(id)))])
  expect(asked).toHaveLength(1000)
  await expect(toInputItems([...input, referenceTo('one more')], find, signal)).rejects.toMatchObject({
    category: 'invalid_request',
    param: 'input',
    message: 'input must refer to at most 1,000 different items, got 1,001.',
    hint: expect.stringContaining('previous_response_id'),
  })
  expect(asked).toHaveLength(1000)
})

it('looks up no more when the client is gone', async () => {
  const gone = new AbortController()
  let asked = 0
  const find = async (id: string): Promise<InputItem> => {
    asked += 1
    if (asked === 2) gone.abort()
    return itemOf(id)
  }
  const input = ['a', 'b', 'c'].map(referenceTo)
  await expect(toInputItems(input, find, gone.signal)).rejects.toMatchObject({ category: 'cancelled' })
  expect(asked).toBe(2)
})
