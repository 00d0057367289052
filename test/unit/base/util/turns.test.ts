/** Turns by key: who asks a lot waits for itself. */
import { expect, test } from 'vitest'
import { createTurns } from '#base/util/turns.js'

const LIMITS = { what: 'plans', mostWaiting: 5, mostOfOneKey: 3 }
const never = new AbortController().signal

/** Tasks that end when they are told to, in the order they started. */
function recorder() {
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const task = (name: string) => () =>
    new Promise<string>((done) => {
      started.push(name)
      ends.set(name, () => done(name))
    })
  /** Ends a task and lets the next one start. */
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.()
    await new Promise(setImmediate)
  }
  return { started, task, end }
}

test('a second key waits for one task of the first, however many the first has', async () => {
  const turns = createTurns(LIMITS)
  const { started, task, end } = recorder()
  const all = ['a1', 'a2', 'a3', 'b1', 'b2'].map((name) => turns.take(name.charAt(0), never, task(name)))
  for (const name of ['a1', 'a2', 'b1', 'a3', 'b2']) {
    expect(started.at(-1)).toBe(name)
    await end(name)
  }
  expect(await Promise.all(all)).toEqual(['a1', 'a2', 'a3', 'b1', 'b2'])
  // and it is free again
  const later = turns.take('c', never, task('c1'))
  await end('c1')
  expect(await later).toBe('c1')
})

test('too many of one key are refused to that key alone, too many of all to everybody', async () => {
  const turns = createTurns(LIMITS)
  const { task } = recorder()
  const take = (key: string) => turns.take(key, never, task(key))
  for (const key of ['a', 'a', 'a', 'a']) void take(key)
  await expect(take('a')).rejects.toMatchObject({ code: 'queue_full', message: '3 plans of this key wait already' })
  for (const key of ['b', 'c']) void take(key)
  await expect(take('d')).rejects.toMatchObject({ code: 'queue_full', message: '5 plans wait already' })
})

test('who goes away loses the place, and nobody waits for it', async () => {
  const turns = createTurns(LIMITS)
  const { started, task, end } = recorder()
  const leaving = new AbortController()
  void turns.take('a', never, task('a1'))
  const left = turns.take('a', leaving.signal, task('a2'))
  const other = turns.take('b', never, task('b1'))
  leaving.abort(new Error('gone'))
  await expect(left).rejects.toThrow('gone')
  await end('a1')
  await end('b1')
  expect(await other).toBe('b1')
  expect(started).toEqual(['a1', 'b1'])
  await expect(turns.take('a', leaving.signal, task('a3'))).rejects.toThrow('gone')
})

test('a task that fails ends its turn', async () => {
  const turns = createTurns(LIMITS)
  const failing = turns.take('a', never, () => Promise.reject(new Error('no')))
  const next = turns.take('b', never, () => Promise.resolve('yes'))
  await expect(failing).rejects.toThrow('no')
  expect(await next).toBe('yes')
})

test('of several places one key has all but those that are kept for keys of which nothing runs', async () => {
  const turns = createTurns({ ...LIMITS, atOnce: 2, spare: 1 })
  const { started, task, end } = recorder()
  for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) void turns.take(name.charAt(0), never, task(name))
  await new Promise(setImmediate)
  expect(started).toEqual(['a1', 'a2', 'b1'])
  // two still run: only who runs nothing may begin
  await end('a1')
  expect(started.slice(3)).toEqual(['c1'])
  await end('a2')
  expect(started.slice(4)).toEqual(['a3'])
  await end('a3')
  // two of others run, and b has one of them
  expect(started.slice(5)).toEqual([])
  await end('c1')
  expect(started.slice(5)).toEqual(['b2'])
})
