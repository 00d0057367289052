/**
 * Samples of Tinker clients: turns, bounds, and the end of those that nobody asks for. The clock is set by hand.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import { createSamples, type NewSample, type Samples } from '#plugins/tinker/samples.js'
import { until } from '../../../support/until.js'

const LIMITS = { mostWaiting: 200, mostBytes: 1_000_000 }
const TIMING = { unaskedMs: 120_000, forgetMs: 1_800_000, lookMs: 5 }
const OWNER = { entity: 'one', project: null }

let nowMs = 0
let samples: Samples | null = null
afterEach(() => samples?.stop())

function create(limits: Partial<typeof LIMITS> = {}): Samples {
  nowMs = 0
  samples = createSamples({ monotonicMs: () => nowMs }, { ...LIMITS, ...limits }, TIMING)
  return samples
}

/** A sample that runs until it is told to end, or is aborted. */
function start(on: Samples, id: string, more: Partial<NewSample> = {}) {
  const answer: Deferred<Uint8Array> = createDeferred()
  const task = { hasBegun: false, isAborted: false, finish: (bytes = 10) => answer.resolve(new Uint8Array(bytes)) }
  const sample = { id, owner: OWNER, keyId: 'a', clientSessionId: 's', sequenceIds: [id], promptBytes: 10, ...more }
  on.start(
    sample,
    (signal) => {
      task.hasBegun = true
      signal.addEventListener('abort', () => {
        task.isAborted = true
        answer.reject(signal.reason)
      })
      return answer.promise
    },
    () => ({ kind: 'gone' }),
  )
  return task
}

describe('samples', () => {
  it('of an entity begin at once however many another one has waiting, of however many keys', async () => {
    const on = create()
    const many = Array.from({ length: 150 }, (_, i) => start(on, `a${i}`, { keyId: `key ${i}` }))
    const other = start(on, 'b', { keyId: 'b', owner: { entity: 'two', project: null } })
    await until(() => other.hasBegun, 'the other entity’s sample')
    expect(many.filter(({ hasBegun }) => hasBegun).length).toBe(64)
  })

  it('beyond the bounds of their key and entity are refused, and others are not', () => {
    const on = create({ mostWaiting: 3 })
    for (let i = 0; i < 3; i++) start(on, `a${i}`)
    expect(() => start(on, 'a3')).toThrow(/3 samples of this key wait or run already/)
    for (let i = 0; i < 9; i++) start(on, `more${i}`, { keyId: `key${i % 3}` })
    expect(() => start(on, 'one more', { keyId: 'another' })).toThrow(/12 of its entity/)
    start(on, 'theirs', { keyId: 'b', owner: { entity: 'two', project: null } })
  })

  it('make room of what was fetched; where nobody fetches, those that wait are given up and new ones are refused', async () => {
    const on = create({ mostBytes: 100_000 })
    start(on, 'fetched').finish(50_000)
    await until(() => on.stateOf(OWNER, 'fetched').kind === 'done', 'the first result')
    const tasks = Array.from({ length: 66 }, (_, i) => start(on, `a${i}`, { promptBytes: 0 }))
    // its memory was needed: each sample takes a kilobyte
    expect(on.stateOf(OWNER, 'fetched').kind).toBe('gone')
    tasks[0]?.finish(50_000)
    await until(() => on.sequencesOf('a64') === null, 'the end of one whose turn has come without room')
    expect(tasks[64]?.hasBegun).toBe(false)
    expect(() => start(on, 'more')).toThrow(/nobody has fetched/)
    expect(on.stateOf(OWNER, 'a0').kind).toBe('done')
    start(on, 'more')
  })

  it('that nobody asks for end, waiting or running; those that are asked for do not; results stay longer', async () => {
    const on = create()
    const running = start(on, 'running')
    const wanted = start(on, 'wanted')
    const done = start(on, 'done')
    done.finish()
    await until(() => running.hasBegun && wanted.hasBegun, 'both')
    nowMs = 100_000
    expect(on.stateOf(OWNER, 'wanted').kind).toBe('running')
    nowMs = 130_000
    await until(() => running.isAborted, 'the end of what nobody asked for')
    expect(wanted.isAborted).toBe(false)
    expect(on.stateOf(OWNER, 'done').kind).toBe('done')
    expect(on.stateOf(OWNER, 'running').kind).toBe('gone')
    nowMs += TIMING.forgetMs + 1
    await until(() => on.sequencesOf('done') === null, 'the end of the result')
  })

  it('of a client that has ended end, and of others do not', async () => {
    const on = create()
    const own = start(on, 'own')
    const other = start(on, 'other', { clientSessionId: 't' })
    await until(() => own.hasBegun && other.hasBegun, 'both')
    on.dropOf('s')
    await until(() => own.isAborted, 'the end of the first')
    expect([other.isAborted, on.sequencesOf('own')]).toEqual([false, null])
  })

  it('are not known to another entity, nor to a key of another project', async () => {
    const on = create()
    const own = { entity: 'one', project: 'mine' }
    start(on, 'x', { owner: own })
    const kindFor = (project: string | null, entity = 'one'): string => on.stateOf({ entity, project }, 'x').kind
    expect([kindFor('mine'), kindFor(null), kindFor('other'), kindFor(null, 'two')]).toEqual([
      'running',
      'running',
      'gone',
      'gone',
    ])
  })
})
