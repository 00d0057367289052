/**
 * The process that checks adapters: kept for the next one of the same entity, and for no other; one that has refused anything is over.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createAdapter, encodeAdapter } from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { type AdapterChecks, createAdapterChecks } from '#plugins/export/adapter-checks.js'
import { until } from '../../support/until.js'

const KEPT_MS = 60_000
let directory: string
let request: Parameters<AdapterChecks['check']>[1]
let checks: AdapterChecks
const open = (keptMs = KEPT_MS): AdapterChecks =>
  createAdapterChecks({
    environment: process.env,
    died: (how) => new AppError('internal', 'export_failed', `the export ${how}`),
    keptMs,
  })

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-checks-'))
  const sourcePath = await ensureTinyRandomModel(join(directory, 'base'))
  const source = await openWeights(sourcePath)
  const adapter = createAdapter(adapterModules(decoderConfigOf(source)), { rank: 4, alpha: 8, seed: 1 })
  await source.close()
  const files = new Map(encodeAdapter(adapter, { baseModelName: 'b' }))
  for (const [name, bytes] of files) await writeFile(join(directory, name), bytes)
  const [configPath, weightsPath] = ['adapter_config.json', 'adapter_model.safetensors'].map((name) =>
    join(directory, name),
  ) as [string, string]
  request = { sourcePath, configPath, weightsPath, rank: 4 }
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))
beforeEach(() => {
  checks = open()
})
afterEach(() => checks.stop())

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it('checks the next adapter of an entity, and none of another', async () => {
  await checks.check('a', request)
  const [first] = checks.keptPids()
  for (let i = 0; i < 3; i += 1) await checks.check('a', request)
  expect(checks.keptPids()).toEqual([first])
  await checks.check('b', request)
  expect(checks.keptPids()).toHaveLength(2)
  expect(checks.keptPids()[0]).toBe(first)
})

it('ends when it has refused one, and when it has stood idle', async () => {
  await checks.check('a', request)
  const [first = 0] = checks.keptPids()
  await expect(checks.check('a', { ...request, rank: 8 })).rejects.toThrow('has r 4, expected 8')
  expect(checks.keptPids()).toEqual([])
  await until(() => !isRunning(first), 'the end of the process that refused')
  await checks.check('a', request)
  expect(checks.keptPids()).toHaveLength(1)
  checks.stop()
  checks = open(1)
  await checks.check('a', request)
  await until(() => checks.keptPids().length === 0, 'the end of the process that stood idle')
})

it('is replaced when it was killed, and there are no more than four', async () => {
  await checks.check('a', request)
  const [first = 0] = checks.keptPids()
  process.kill(first, 'SIGKILL')
  await until(() => !isRunning(first), 'the end of the killed process')
  for (const key of ['a', 'b', 'c', 'd', 'e']) await checks.check(key, request)
  const pids = checks.keptPids()
  expect([pids.length, pids.includes(first)]).toEqual([4, false])
  checks.stop()
  await until(() => !pids.some(isRunning), 'the end of all')
})
