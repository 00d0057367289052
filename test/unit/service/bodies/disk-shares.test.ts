/**
 * Room on disk for unfinished bodies, shared by keys.
 */
import { expect, test } from 'vitest'
import { createDiskShares } from '#service/bodies/disk-shares.js'

const refused = (message: string) =>
  expect.objectContaining({ code: 'too_many_bodies', message: expect.stringContaining(message) })

test('several bodies of one key take half, and another key finds room beside them', () => {
  const shares = createDiskShares(100)
  const first = shares.open('greedy')
  const second = shares.open('greedy')
  first.take(30)
  second.take(20)
  expect(() => second.take(1)).toThrow(refused('this key holds 50 bytes in 2 unfinished request bodies'))
  expect(() => shares.open('greedy').take(1)).toThrow(refused('this key holds 50 bytes'))
  shares.open('other').take(50)
})

test('the only body of a key takes all that is left, and no more', () => {
  const shares = createDiskShares(100)
  const only = shares.open('a')
  only.take(60)
  only.take(40)
  expect(() => shares.open('b').take(1)).toThrow(refused('the server holds 100 bytes'))
  expect(() => only.take(1)).toThrow(refused('the server holds 100 bytes'))
})

test('what is given back is there again, once', () => {
  const shares = createDiskShares(100)
  const body = shares.open('a')
  body.take(100)
  body.release()
  body.release()
  shares.open('b').take(100)
  expect(() => shares.open('a').take(1)).toThrow(refused('the server holds 100 bytes'))
})
