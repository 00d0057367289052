/**
 * A device is tried in a process of its own before it is trusted: what it computes is compared, what it dies of is an answer, and a
 * server that was asked for one it cannot have says so instead of computing on another.
 *
 * With the software Vulkan of Debian's chromium the whole way is walked on WebGPU.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { placementOf, speedupOf } from '#contract/processes/device-proof.js'
import type { SystemCheckResponse } from '#contract/wire/health.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { worstOf } from '#plugins/devices/prove.js'
import { DEVICE_TOLERANCE, proveDevice } from '#plugins/devices/prove-device.js'
import { openSmallModel } from '#plugins/devices/small-graphs.js'
import type { ServiceSeams } from '#service/test-door.js'
import {
  hasSoftwareVulkan,
  NO_SOFTWARE_VULKAN,
  noVulkan,
  softwareVulkan,
} from '../../support/reference/software-vulkan.js'
import { createTestedService } from '../../support/service/with-plugins.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

/** Far above what it takes: all of this file ran in 27 s on two quiet cores, in software; others may want the processor too. */
const SOFTWARE_MS = 5 * 60_000
const run = promisify(execFile)
const isLinux = process.platform === 'linux'

describe('the comparison', () => {
  const numbers = (...values: number[]) => Float32Array.from(values)

  it('is relative to the largest number of a tensor, and names the worst', () => {
    const expected = new Map([
      ['a', numbers(1, -100)],
      ['b', numbers(1, 2)],
    ])
    const actual = new Map([
      ['a', numbers(1.5, -100)],
      ['b', numbers(1, 2.02)],
    ])
    const [output, error] = worstOf(actual, expected)
    expect(output).toBe('b')
    expect(error).toBeCloseTo(0.01, 6)
  })

  it('lets nothing pass that is missing, no number, or something where zeros are due', () => {
    const zeros = new Map([['a', numbers(0, 0)]])
    expect(worstOf(new Map(), zeros)).toEqual(['a', Number.POSITIVE_INFINITY])
    expect(worstOf(new Map([['a', numbers(0, Number.NaN)]]), zeros)[1]).toBe(Number.POSITIVE_INFINITY)
    expect(worstOf(new Map([['a', numbers(0, 1e-9)]]), zeros)[1]).toBe(Number.POSITIVE_INFINITY)
    expect(worstOf(zeros, zeros)).toEqual(['a', 0])
  })
})

it('the graphs that devices are tried with give every output, none of them zeros', async () => {
  const model = await openSmallModel()
  try {
    const runtime = createOrtRuntime()
    const computed = await Promise.all([model.step(runtime), model.score(runtime), model.train(runtime)])
    const names = computed.flatMap(({ results }) => [...results.keys()])
    for (const name of ['newRows of prompt', 'logits of choices', 'probabilities of choices', 'logp', 'loss']) {
      expect(names).toContain(name)
    }
    expect(names.filter((name) => name.startsWith('gradient:')).length).toBeGreaterThan(10)
    for (const { results } of computed) {
      for (const [name, data] of results) {
        expect(
          data.some((value) => value !== 0),
          name,
        ).toBe(true)
      }
    }
  } finally {
    await model.close()
  }
})

describe.skipIf(!isLinux)('a device that cannot be had', () => {
  it.each([
    ['webgpu', /^webgpu cannot be used: no graphics card with a driver was found/],
    ['cuda', /^cuda cannot be used: /],
  ] as const)('%s is refused with the reason', async (device, reason) => {
    const proof = await proveDevice(device, { ...noVulkan(), CUDA_VISIBLE_DEVICES: '' })
    expect(proof).toMatchObject({ device, isTrusted: false, graphs: [] })
    expect(proof.problem).toMatch(reason)
    expect(speedupOf(proof)).toBeNull()
  })

  it('a process that does not end is ended, and that is an answer', async () => {
    const proof = await proveDevice('webgpu', noVulkan(), 1)
    expect(proof.isTrusted).toBe(false)
    expect(proof.problem).toMatch(/^webgpu cannot be used: the process that tried it did not end within 0\.001 s/)
  })
})

describe.skipIf(!isLinux)('a server', () => {
  const start = async (options: object, seams: ServiceSeams = { environment: noVulkan() }) =>
    createTestedService({
      dataDir: await temporaryDirectory(),
      port: 0,
      threads: 1,
      logger: createLogger({ level: 'silent' }),
      baseModels: ['trainyard/tiny-random'],
      ...options,
      seams,
    })

  it('does not start with a device that was named and cannot be had', async () => {
    const refused = { code: 'device_refused', param: 'device', message: expect.stringContaining('webgpu cannot be') }
    await expect(start({ device: 'webgpu' })).rejects.toMatchObject(refused)
  })

  it('tries no device where another server has the directory', async () => {
    const dataDir = await temporaryDirectory()
    const first = await start({ dataDir })
    await expect(start({ dataDir, device: 'webgpu' })).rejects.toMatchObject({ code: 'data_dir_locked' })
    await first.close(1000)
  })

  it.each(['int8', 'int4'] as const)('does not start with a device and precision %s', async (precision) => {
    const refused = { code: 'invalid_setting', param: 'precision', message: expect.stringContaining('webgpu serves') }
    await expect(start({ device: 'webgpu', precision })).rejects.toMatchObject(refused)
  })

  it('takes the CPU with auto where nothing else is right and faster', async () => {
    const service = await start({ device: 'auto' }, { environment: { ...noVulkan(), CUDA_VISIBLE_DEVICES: '' } })
    expect(service.device).toBe('cpu')
    const { checks } = (await (await fetch(`${service.url}/v1/system-check`)).json()) as SystemCheckResponse
    const { warnings } = (checks ?? []).find(({ name }) => name === 'gpu_queue') ?? {}
    expect(warnings).toEqual([
      expect.stringMatching(/^device auto did not take cuda: cuda cannot be used: /),
      expect.stringMatching(/^device auto did not take webgpu: webgpu cannot be used: no graphics card with a driver/),
    ])
    await service.close(1000)
  })
})

describe.skipIf(!hasSoftwareVulkan)(
  `WebGPU on software Vulkan${hasSoftwareVulkan ? '' : `: ${NO_SOFTWARE_VULKAN}`}`,
  () => {
    it('computes right, with steps wholly on the device', { timeout: SOFTWARE_MS }, async () => {
      const proof = await proveDevice('webgpu', await softwareVulkan(await temporaryDirectory()))
      expect(proof.problem).toBeNull()
      expect(proof.graphs.map(({ graph }) => graph)).toEqual(['step', 'score', 'train'])
      for (const { error, output } of proof.graphs) expect(error, output).toBeLessThan(DEVICE_TOLERANCE / 10)
      expect(proof.graphs[0]?.nodesOnCpu).toEqual({})
      const { onCpu, all } = placementOf(proof)
      expect(onCpu / all).toBeLessThan(0.1)
    })

    it('decodes the tokens of the CPU, and is sent no keys and values but new ones', {
      timeout: SOFTWARE_MS,
    }, async () => {
      const { cpu, webgpu } = await stepsOnDevice(await softwareVulkan(await temporaryDirectory()))
      expect(webgpu.tokens).toEqual(cpu.tokens)
      // steps 0 and 4 are the first ones of their prompts
      for (const step of [1, 2, 3, 5, 6]) {
        const prompts = step < 4 ? 1 : 2
        const [sent, owned] = [webgpu.bytes[step] ?? Number.NaN, cpu.bytes[step] ?? Number.NaN]
        expect(owned - sent, `step ${step}`).toBeGreaterThan(prompts * cpu.promptBytes)
        // the masks of two kinds of layers are most of it
        expect(sent, `step ${step}`).toBeLessThan(0.5 * prompts * cpu.promptBytes)
      }
    })

    it('says that memory is refused, and goes on where less is asked for', { timeout: SOFTWARE_MS }, async () => {
      const environment = await softwareVulkan(await temporaryDirectory())
      const script = join(import.meta.dirname, 'refused-memory.js')
      // a limit of the process is one of this driver: its memory is the process's own; arenas of threads would count by the number of cores
      const limited = ['-c', 'ulimit -v 4000000; exec "$0" "$@"', process.execPath, script]
      const { stdout } = await run('sh', limited, {
        env: { ...environment, MALLOC_ARENA_MAX: '1' },
        timeout: SOFTWARE_MS,
      })
      const [first, refused, last] = JSON.parse(stdout) as readonly object[]
      expect(first).toEqual({ value: expect.closeTo(3, 4) })
      expect(refused).toMatchObject({
        code: 'device_memory',
        category: 'unavailable',
        message: 'webgpu is out of memory, or takes no buffer of that size',
        hint: expect.stringContaining('--kv-cache-memory'),
      })
      expect(last).toEqual(first)
    })
  },
)

interface Decoded {
  readonly tokens: readonly number[]
  /** What was sent in each step. */
  readonly bytes: readonly number[]
  /** Keys and values of one prompt. */
  readonly promptBytes: number
}

/** By a process that has the environment from its start. */
async function stepsOnDevice(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Readonly<Record<'cpu' | 'webgpu', Decoded>>> {
  const script = join(import.meta.dirname, 'steps-on-device.js')
  const { stdout } = await run(process.execPath, [script], { env: { ...environment }, timeout: SOFTWARE_MS })
  return JSON.parse(stdout) as Readonly<Record<'cpu' | 'webgpu', Decoded>>
}
