/**
 * How much of what was logged is read to be compared, and what is said of the rest. A real database; the blobs are texts that are counted
 * as they are opened.
 */
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import type { Principal } from '#service/operations/context.js'
import { createLogComparisonService } from '#service/operations/log-comparison.js'
import { insertTrajectoryLog } from '#service/storage/trajectories.js'
import { createJobFixture, type JobFixture } from '../../../support/service/job-fixture.js'

const PRINCIPAL: Principal = {
  ...{ keyId: 'k', keyPrefix: 'ty_k', sessionId: null, scope: 'write', usageProject: null },
  ...{ entity: 'local', project: null },
}
let fixture: JobFixture
let texts: Map<string, string>
let opened: string[]
beforeEach(async () => {
  fixture = await createJobFixture()
  texts = new Map()
  opened = []
})
afterEach(() => fixture.close())

const rowOf = (asked: string) =>
  JSON.stringify({
    trajectories: [
      {
        reward: 1,
        messages_and_choices: [
          { role: 'user', content: asked },
          { role: 'assistant', content: 'a' },
        ],
      },
    ],
  })

async function log(name: string, lines: readonly string[], step = 0): Promise<void> {
  texts.set(name, lines.join('\n'))
  await insertTrajectoryLog(fixture.db, {
    ...{ id: systemIds.uuid(), modelId: fixture.modelId, split: 'val', step, bodySha256: name },
    ...{ groupCount: lines.length, trajectoryCount: lines.length, metrics: {} },
  })
}

function compare(signal = new AbortController().signal) {
  const blobs = {
    openRead: async (name: string) => {
      opened.push(name)
      return Readable.from([Buffer.from(texts.get(name) ?? '')])
    },
  }
  const context = { db: fixture.db, blobs, maxGroupBytes: 128 * 1024 ** 2 }
  const query = { split: 'val', a: 0, b: 1 }
  return createLogComparisonService(context as never).compare(PRINCIPAL, fixture.modelId, query, signal)
}

describe('a comparison of logs', () => {
  it('reads nothing beyond its bound: the rest is counted, whole logs by what is noted of them', async () => {
    await log(
      'first',
      Array.from({ length: 5010 }, (_, n) => rowOf(`${n}`)),
    )
    await log('second', [rowOf('x'), rowOf('y')])
    const compared = await compare()
    expect(compared).toMatchObject({ a: { logs: 2, prompts: 5000 }, skipped: 12 })
    expect(opened).toEqual(['first'])
  })

  it('counts the groups of logs that are too many', async () => {
    for (let n = 0; n < 103; n += 1) await log(`log ${n}`, [rowOf(`${n}`), rowOf('again')])
    expect(await compare()).toMatchObject({ a: { logs: 100, prompts: 101 }, skipped: 6 })
  })

  it('leaves a group out that is longer than lines are elsewhere', async () => {
    await log('long', [`${' '.repeat(65 * 1024 ** 2)}${rowOf('long')}`])
    await log('short', [rowOf('x')])
    expect(await compare()).toMatchObject({ a: { logs: 2, prompts: 0 }, skipped: 2 })
  })

  it('ends with whoever asked', async () => {
    await log('first', [rowOf('x')])
    await expect(compare(AbortSignal.abort())).rejects.toThrow('aborted')
  })
})
