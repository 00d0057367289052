/**
 * How many streams of events an entity follows: counted while their answers are open, and not a moment longer.
 */
import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import { createStreamShares } from '#service/http/connections/stream-shares.js'

const answerOf = (destroyed = false) => Object.assign(new EventEmitter(), { destroyed })

describe('streams of an entity', () => {
  it('are as many as it may follow, and each that ends makes room', () => {
    const shares = createStreamShares(2)
    const [first, second] = [answerOf(), answerOf()]
    shares.enter(first, 'a')
    shares.enter(second, 'a')
    expect(() => shares.enter(answerOf(), 'a')).toThrow(/"a" follows 2 streams/)
    shares.enter(answerOf(), 'b')
    first.emit('close')
    shares.enter(answerOf(), 'a')
  })

  it('do not count whose client had left before they began', () => {
    const shares = createStreamShares(1)
    for (let i = 0; i < 3; i++) shares.enter(answerOf(true), 'a')
    shares.enter(answerOf(), 'a')
  })
})
