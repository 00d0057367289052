/**
 * The limit on the JavaScript heap of a grammar's thread, kept by the thread's own code: whatever a short text can make large asks
 * here while it grows.
 *
 * V8's own limit of a thread (`resourceLimits`) is no protection. Node ends the thread when it next runs JavaScript; where one piece
 * of work inside V8 goes past the limit and its leeway of 16 MB, as joining or decoding a long text does, V8 aborts the whole process
 * (nodejs/node issue 47224), here every answer of the engine. So that limit stands far above this one.
 */
import { getHeapStatistics } from 'node:v8'
import { InvalidRequestError } from '#base/errors/errors.js'
import { collectGarbageNow } from '#base/machine/collect-garbage.js'

const MIB = 2 ** 20
/** Looking costs a microsecond, and a step less than that. */
const STEPS_PER_LOOK = 32
/** Garbage that a collection, which takes some tens of milliseconds, is worth. */
const WORTH_COLLECTING_BYTES = 24 * MIB

let limitBytes = Number.POSITIVE_INFINITY
let steps = 0

/** From now on `checkHeap` keeps this thread's heap within `maxBytes`. */
export function limitHeap(maxBytes: number): void {
  limitBytes = maxBytes
}

/**
 * To be called for every small part of work whose result is kept, and before what is large at once.
 *
 * @param addedBytes what is about to be added at once; 0 for one of many small parts
 * @throws {InvalidRequestError} `grammar_too_complex` where no garbage is left to make room
 */
export function checkHeap(addedBytes = 0): void {
  if (limitBytes === Number.POSITIVE_INFINITY) return
  if (addedBytes === 0 && ++steps % STEPS_PER_LOOK !== 0) return
  // what is used holds garbage, too
  if (getHeapStatistics().used_heap_size + addedBytes <= limitBytes + WORTH_COLLECTING_BYTES) return
  collectGarbageNow()
  if (getHeapStatistics().used_heap_size + addedBytes > limitBytes) throw tooComplex('needs too much memory')
}

export function tooComplex(what: string): InvalidRequestError {
  return new InvalidRequestError('grammar_too_complex', `the grammar of the request ${what}`, {
    hint: 'use fewer nested or repeated parts, and smaller bounds on lengths',
  })
}
