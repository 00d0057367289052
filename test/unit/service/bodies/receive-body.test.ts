/**
 * Turns of bodies that arrive: so many a round, in order, and other work in between.
 */
import { expect, test } from 'vitest'
import { createReadTurns } from '#service/bodies/receive-body.js'

test('a round takes so many, in the order they came, and others come between rounds', async () => {
  const turns = createReadTurns(3)
  const seen: string[] = []
  const all = Promise.all(Array.from({ length: 7 }, (_, i) => turns.next('a').then(() => seen.push(String(i)))))
  const other = (): void => {
    seen.push('other')
    if (seen.length < 9) setImmediate(other)
  }
  setImmediate(other)
  await all
  expect(seen.slice(0, 9)).toEqual(['0', '1', '2', 'other', '3', '4', '5', 'other', '6'])
})

test('who comes later is served too', async () => {
  const turns = createReadTurns(1)
  await turns.next('a')
  await turns.next('a')
  await Promise.all([turns.next('a'), turns.next('a')])
})

test('a key with many bodies holds up another by one part', async () => {
  const turns = createReadTurns(2)
  const seen: string[] = []
  const many = Array.from({ length: 100 }, (_, i) => turns.next('many').then(() => seen.push(`many ${i}`)))
  const few = Array.from({ length: 2 }, (_, i) => turns.next('few').then(() => seen.push(`few ${i}`)))
  await Promise.all([...many, ...few])
  expect(seen.slice(0, 5)).toEqual(['many 0', 'few 0', 'many 1', 'few 1', 'many 2'])
})
