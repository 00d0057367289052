/**
 * What pipelined steps of a training loop leave in the server: nothing that grows with them.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService } from '../../../support/service/create-test-service.js'
import { startService } from '../../../support/service/service-process.js'
import { openTinker, plainRows, type TinkerTestClient } from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'

const TELLER = join(import.meta.dirname, '../../../support/stand-ins/tell-resources.cjs')
const BASE_MODEL = 'trainyard/tiny-random'
/** As protobuf 5 kB, and 1 kB of log-probabilities in the answer. */
const ROWS = plainRows(
  Array.from({ length: 8 }, (_, row) => Array.from({ length: 33 }, (_, i) => 10 + ((row * 33 + i) % 90))),
)
const STEP = { adam_params: { learning_rate: 0.001 } }
const AHEAD = 4

async function openLoop(tinker: TinkerTestClient): Promise<(count: number) => Promise<void>> {
  const run = await tinker.createRun({ baseModel: BASE_MODEL, seed: 1 })
  return async (count) => {
    const sent: string[] = []
    for (let i = 0; i < count; i += 1) {
      while (sent.length < Math.min(count, i + AHEAD)) {
        await run.send({ loss: 'cross_entropy', data: ROWS })
        sent.push(await run.post('optim_step', STEP))
      }
      expect(await tinker.result(sent[i] as string)).toMatchObject({ json: { type: 'optim_step' } })
    }
  }
}

it('five hundred pipelined steps leave what the server holds within 1.05', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-steps-'))
  const told = join(folder, 'resources')
  const service = await startService({
    args: ['--base-model', BASE_MODEL, '--train-workers', '1', '--threads', '1', '--log-level', 'error'],
    env: { NODE_OPTIONS: `--require ${TELLER}`, TELL_RESOURCES: told },
  })
  async function tell(): Promise<number> {
    rmSync(told, { force: true })
    service.child.kill('SIGUSR2')
    const line = await until(() => {
      const text = existsSync(told) ? readFileSync(told, 'utf8') : ''
      return text.endsWith('\n') ? text : null
    }, 'the server to tell what it holds')
    return (JSON.parse(line) as { heapBytes: number }).heapBytes
  }
  /** Bytes that something still reaches; what a collection lets go of may hold something that only the next one finds. */
  async function reachableBytes(): Promise<number> {
    return Math.min(await tell(), await tell(), await tell())
  }
  try {
    const steps = await openLoop(await openTinker({ url: service.url, apiKey: service.key }))
    // what V8 learns of code that runs is reachable, too: it has learned most by then
    await steps(300)
    const before = await reachableBytes()
    await steps(500)
    expect((await reachableBytes()) / before).toBeLessThan(1.05)
  } finally {
    await service.stop()
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
  }
})

it('steps have no statement of their own: what is compiled for one serves all', async () => {
  const prepare = vi.spyOn(
    Object.getPrototypeOf(openSqlite(':memory:')) as { prepare(sql: string): unknown },
    'prepare',
  )
  const service = await createTestService({ scripted: false, baseModels: [BASE_MODEL] })
  try {
    const steps = await openLoop(await openTinker(service))
    await steps(20)
    const texts = new Set(prepare.mock.calls.map(([sql]) => sql))
    expect([...texts].some((sql) => sql.includes('insert into usage_days'))).toBe(true)
    // a number in a text makes a statement of every number
    expect(new Set([...texts].map((sql) => sql.replace(/\d+/g, '#'))).size).toBe(texts.size)
  } finally {
    await service.dispose()
    prepare.mockRestore()
  }
})
