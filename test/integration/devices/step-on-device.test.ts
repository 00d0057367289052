/**
 * Steps whose keys and values stay on a device, by the graphs that devices are tried with: what of it they run, and what becomes of them
 * where the device refuses memory.
 *
 * Here on the CPU with the sessions of a device; on WebGPU in `device-proof.test.ts`.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { toDeviceError } from '#numerics/runtime/device-errors.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Feeds, Runtime } from '#numerics/runtime/runtime.js'
import { placementIn, tracing, worstOf } from '#plugins/devices/prove.js'
import { openSmallModel, type SmallModel } from '#plugins/devices/small-graphs.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'
import { deviceLikeRuntime } from '../inference/engine-harness.js'

/** The same sums in another order: the graph of a device is another one. */
const TOLERANCE = 1e-5

let model: SmallModel
beforeAll(async () => {
  model = await openSmallModel()
})
afterAll(async () => {
  await model.close()
})

/** Whether a run takes anything from the device. */
const isResident = (feeds: Feeds): boolean => Object.values(feeds).some((tensor) => !('data' in tensor))
const refused = (): Error | null => toDeviceError('webgpu', new Error('VK_ERROR_OUT_OF_DEVICE_MEMORY'))

interface Watched {
  readonly runtime: Runtime
  /** Sessions that are loaded and not released. */
  readonly open: () => number
}

/** @param before is called before every run and every load */
function watched(before: {
  readonly step?: (feeds: Feeds) => void
  readonly resident?: (feeds: Feeds) => void
  readonly load?: (count: number) => void
}): Watched {
  const { runtime } = deviceLikeRuntime()
  let open = 0
  let loads = 0
  return {
    open: () => open,
    runtime: {
      ...runtime,
      async loadSession(...given) {
        const session = await runtime.loadSession(...given)
        open += 1
        return {
          ...session,
          async run(feeds, fetches) {
            before.step?.(feeds)
            return await session.run(feeds, fetches)
          },
          async release() {
            open -= 1
            await session.release()
          },
        }
      },
      async loadResident(...given) {
        before.load?.(loads++)
        const session = await runtime.loadResident(...given)
        if (session === null) return null
        open += 1
        return {
          async run(feeds) {
            before.resident?.(feeds)
            return await session.run(feeds)
          },
          async release() {
            open -= 1
            await session.release()
          },
        }
      },
    },
  }
}

it('the graphs that devices are tried with write to what lies there, and move it', async () => {
  const ran = { written: 0, moved: 0, taken: 0 }
  const { runtime, open } = watched({
    step: (feeds) => {
      if (isResident(feeds)) ran.taken += 1
    },
    resident: (feeds) => {
      if ('columns' in feeds) ran.moved += 1
      else if (isResident(feeds)) ran.written += 1
    },
  })
  const { results } = await model.step(runtime)
  expect(ran.written).toBeGreaterThan(0)
  expect(ran.moved).toBeGreaterThan(0)
  expect(ran.taken).toBeGreaterThan(3)
  const expected = (await model.step(createOrtRuntime())).results
  expect([...expected.keys()]).toEqual(expect.arrayContaining(['logits of third tokens', 'logits of moved choices']))
  expect(worstOf(results, expected)[1]).toBeLessThan(TOLERANCE)
  expect(open()).toBe(0)
})

it('the trace of what a device is tried with has the sessions whose outputs stay there', async () => {
  const prefix = join(await temporaryDirectory(), 'step')
  const traced = tracing(createOrtRuntime(), prefix)
  // on the CPU steps keep no copies of their own accord
  const { runtime } = deviceLikeRuntime()
  const onCpu = { device: 'cpu' } as const
  await model.step({
    ...runtime,
    loadSession: (bytes, options) => traced.loadSession(bytes, { ...options, ...onCpu }),
    loadResident: (bytes, options) => traced.loadResident(bytes, { ...options, ...onCpu }),
  })
  const { nodesOnCpu } = await placementIn(prefix)
  expect(nodesOnCpu['ScatterND']).toBeGreaterThan(0)
})

describe('a step whose device refuses memory', () => {
  it.each([
    ['beside copies', 'step'],
    ['for copies', 'resident'],
  ] as const)('%s is computed from what JavaScript holds', async (_, where) => {
    const expected = (await model.step(deviceLikeRuntime().runtime)).results
    let count = 0
    let refusals = 0
    const { runtime, open } = watched({
      [where]: (feeds: Feeds) => {
        if (where === 'step' && !isResident(feeds)) return
        count += 1
        if (count % 2 === 0) return
        refusals += 1
        throw refused()
      },
    })
    const { results } = await model.step(runtime)
    expect(refusals).toBeGreaterThan(1)
    expect(worstOf(results, expected)).toEqual([expect.any(String), 0])
    expect(open()).toBe(0)
  })

  it('fails where it is refused without copies too', async () => {
    const { runtime, open } = watched({
      step: () => {
        throw refused()
      },
    })
    await expect(model.step(runtime)).rejects.toMatchObject({ code: 'device_memory' })
    expect(open()).toBe(0)
  })
})

it.each([0, 1])('a model whose copies cannot be had leaves no session behind (load %i fails)', async (at) => {
  const { runtime, open } = watched({
    load: (count) => {
      if (count === at) throw refused()
    },
  })
  await expect(model.step(runtime)).rejects.toMatchObject({ code: 'device_memory' })
  expect(open()).toBe(0)
})
