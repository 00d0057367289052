/**
 * An engine takes fewer threads while a job computes on the same machine: in a pause after some work, between two tokens where there
 * is none, with the same bits, and never by force.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Engine } from '#inference/engine/engine.js'
import type { ThreadsChange } from '#inference/engine/scheduling/core-sharing.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { until } from '../../support/until.js'
import { engineFor, generate, prepareTiny, promptOf, RANDOM } from './engine-harness.js'

let prepared: PreparedModel
let remove: () => Promise<void>
beforeAll(async () => {
  const tiny = await prepareTiny()
  prepared = tiny.prepared
  remove = tiny.remove
})
afterAll(() => remove())

/** What happened to an engine of two threads, one beside a job. */
interface Observed {
  readonly engine: Engine
  /** At least what its session took to load. */
  readonly loadMs: number
  readonly changes: ThreadsChange[]
  /** Threads of each step, in order. */
  readonly steps: (number | undefined)[]
  /** Threads of sessions that were loaded and of those that were released. */
  readonly loaded: (number | undefined)[]
  readonly released: (number | undefined)[]
}

async function observe(options: { readonly refusesSecond?: boolean } = {}): Promise<Observed> {
  const real = createOrtRuntime({ spinMicroseconds: 0 })
  const changes: ThreadsChange[] = []
  const [steps, loaded, released]: (number | undefined)[][] = [[], [], []]
  const runtime: Runtime = {
    ...real,
    async loadSession(model, given) {
      const threads = given?.threads
      if (options.refusesSecond === true && loaded.length === 1) throw new Error('no room for it')
      const session = await real.loadSession(model, given)
      loaded.push(threads)
      return {
        ...session,
        run(feeds, fetches) {
          steps.push(threads)
          return session.run(feeds, fetches)
        },
        release() {
          released.push(threads)
          return session.release()
        },
      }
    },
  }
  const own = { threads: 2, threadsBesideJob: 1, onThreadsChange: (change: ThreadsChange) => changes.push(change) }
  const fromMs = performance.now()
  const engine = await engineFor(prepared, { runtime, ...own })
  return { engine, loadMs: performance.now() - fromMs, changes, steps, loaded, released }
}

/** As a step of a larger model would. */
function holdUp(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const rules = (maxTokens: number) => ({ ...RANDOM, seed: 9n, maxTokens, topLogprobs: 2, ignoreEos: true })

/** As much work as loading takes, twice. */
async function work({ engine, loadMs }: Observed): Promise<void> {
  await generate(engine, promptOf(20, 3), rules(20), {
    onToken: () => {
      holdUp(loadMs / 10)
      return true
    },
  })
}

describe('beside a job', () => {
  test('an engine takes fewer threads in the first pause after some work, and all again after the job, with one session for all jobs', async () => {
    const observed = await observe()
    const { engine, changes, steps, loaded, released } = observed
    const alone = await generate(engine, promptOf(20), rules(8))
    engine.shareCores(true)
    expect(loaded).toEqual([2])
    await work(observed)
    await until(() => changes.length === 1, 'fewer threads')
    const before = steps.length
    const beside = await generate(engine, promptOf(20, 1), rules(8))
    expect(new Set(steps.slice(0, before))).toEqual(new Set([2]))
    expect(new Set(steps.slice(before))).toEqual(new Set([1]))
    engine.shareCores(false)
    await until(() => changes.length === 2, 'all threads')
    expect((await generate(engine, promptOf(20, 1), rules(8))).events).toEqual(beside.events)
    expect(steps.at(-1)).toBe(2)
    engine.shareCores(true)
    await until(() => changes.length === 3, 'fewer threads again, at once')
    expect((await generate(engine, promptOf(20), rules(8))).events).toEqual(alone.events)
    expect(changes.map(({ threads, error }) => [threads, error])).toEqual([1, 2, 1].map((threads) => [threads, null]))
    expect(loaded).toEqual([2, 1])
    await engine.close()
    expect(released.sort()).toEqual([1, 2])
  })

  test('an engine that nobody uses loads nothing', async () => {
    const observed = await observe()
    const { engine, changes, loaded } = observed
    await work(observed)
    engine.shareCores(true)
    engine.shareCores(false)
    await engine.idle()
    expect(loaded).toEqual([2])
    expect(changes).toEqual([])
    await engine.close()
  })

  test('a running answer goes on through both changes, with the bits it would have had', async () => {
    const { engine, loadMs, changes, steps } = await observe()
    const expected = await generate(engine, promptOf(20, 2), rules(1500))
    const from = steps.length
    let tokens = 0
    const answer = await generate(engine, promptOf(20, 2), rules(1500), {
      onToken: () => {
        tokens += 1
        if (tokens === 1) engine.shareCores(true)
        // streams are held up by the load only when it is a small part of the time beside the job
        if (tokens > 1 && tokens < 1400 && changes.length === 0) holdUp(loadMs / 20)
        if (tokens === 1450) engine.shareCores(false)
        return true
      },
    })
    expect(answer.error).toBeNull()
    expect(answer.events).toEqual(expected.events)
    expect(changes.map(({ threads }) => threads)).toEqual([1, 2])
    const threads = steps.slice(from)
    expect([threads.at(0), threads.at(-1)]).toEqual([2, 2])
    expect(threads).toContain(1)
    await engine.close()
  })

  test('an engine whose second session cannot be loaded says so once a job and goes on', async () => {
    const observed = await observe({ refusesSecond: true })
    const { engine, changes, steps } = observed
    engine.shareCores(true)
    await work(observed)
    await until(() => changes.length === 1, 'word of it')
    expect(changes[0]).toMatchObject({ threads: 2, error: new Error('no room for it') })
    expect((await generate(engine, promptOf(20), rules(8))).events).toHaveLength(8)
    expect(new Set(steps)).toEqual(new Set([2]))
    expect(changes).toHaveLength(1)
    await engine.close()
  })

  test('an engine that has its threads by a setting, or half of the cores, changes nothing', async () => {
    const changes: ThreadsChange[] = []
    const engine = await engineFor(prepared, { threads: 1, onThreadsChange: (change) => changes.push(change) })
    engine.shareCores(true)
    await generate(engine, promptOf(20), rules(4))
    expect(changes).toEqual([])
    await engine.close()
  })
})
