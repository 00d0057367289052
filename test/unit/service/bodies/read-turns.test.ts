/**
 * Turns of bodies that arrive: so many a round, in order, and other work in between.
 */
import { expect, test } from 'vitest'
import { createReadTurns } from '#service/bodies/read-turns.js'

test('a round takes so many, in the order they came, and others come between rounds', async () => {
  const turns = createReadTurns(3)
  const seen: string[] = []
  const all = Promise.all(Array.from({ length: 7 }, (_, i) => turns.next().then(() => seen.push(String(i)))))
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
  await turns.next()
  await turns.next()
  await Promise.all([turns.next(), turns.next()])
})
