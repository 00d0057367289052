/** Messages of an engine host: few, in order, and late only by a moment and only in the middle of an answer. */
import { expect, test } from 'vitest'
import { createOutbox } from '../../../../src/inference/host/outbox.js'
import type { DeltaEvent, HostEvent } from '../../../../src/inference/host/protocol.js'

const delta = (id: string, text: string, finishReason: DeltaEvent['finishReason'] = null): DeltaEvent => ({
  type: 'delta',
  id,
  choice: 0,
  text,
  tokenIds: [],
  logprobs: [],
  finishReason,
  stopReason: null,
})
const worded = (event: HostEvent): string => {
  if (event.type === 'delta') return event.text
  return event.type === 'finished' ? `finished ${event.id}` : event.type
}

/** An outbox on a clock that stands still; its messages as words. */
function open(holdMs: number) {
  let nowMs = 1000
  const messages: string[][] = []
  let heard = (): void => undefined
  const say = createOutbox({
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    post: (events) => {
      messages.push(events.map(worded))
      heard()
    },
    holdMs,
  })
  return {
    messages,
    /** One step: all it says in one turn, then the turn's end. */
    step: async (...events: HostEvent[]) => {
      for (const event of events) say(event)
      await Promise.resolve()
    },
    pass: (ms: number) => {
      nowMs += ms
    },
    next: () =>
      new Promise<void>((resolve) => {
        heard = resolve
      }),
  }
}

test('what one step says is one message', async () => {
  const { messages, step } = open(60_000)
  await step({ type: 'finished', id: 'x' }, delta('a', '1'), delta('b', '1'))
  expect(messages).toEqual([['finished x', '1', '1']])
})

test('the middle of an answer is held while the last message is fresh; its end takes it along, in order', async () => {
  const { messages, step, pass } = open(60_000)
  await step(delta('a', '1'))
  await step(delta('a', '2'))
  pass(1)
  await step(delta('a', '3'))
  expect(messages).toEqual([['1']])
  await step(delta('a', '4', 'length'), { type: 'finished', id: 'a' })
  expect(messages).toEqual([['1'], ['2', '3', '4', 'finished a']])
})

test('the first part of another answer is not held', async () => {
  const { messages, step } = open(60_000)
  await step(delta('a', '1'))
  await step(delta('a', '2'))
  await step(delta('b', 'first'))
  expect(messages).toEqual([['1'], ['2', 'first']])
  await step({ type: 'finished', id: 'b' })
  // the same id again: a new answer
  await step(delta('b', 'anew'))
  expect(messages.slice(2)).toEqual([['finished b'], ['anew']])
})

test('steps slower than the hold are each a message', async () => {
  const { messages, step, pass } = open(5)
  for (const text of ['1', '2', '3']) {
    await step(delta('a', text))
    pass(5)
  }
  expect(messages).toEqual([['1'], ['2'], ['3']])
})

test('what is held goes out by itself', async () => {
  const { messages, step, next } = open(2)
  await step(delta('a', '1'))
  const sent = next()
  await step(delta('a', '2'))
  await sent
  expect(messages).toEqual([['1'], ['2']])
})
