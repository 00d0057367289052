/**
 * A loop at two servers on one PostgreSQL database: the one that has it is killed, and the other takes it. It ends with the
 * evaluations, the jobs and the adapter of a loop that nobody disturbed.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Loop, LoopEventBody } from '#plugins/loops/wire.js'
import {
  type Group,
  NO_SEVERAL_SERVERS,
  type SharedParts,
  startGroup,
  startSharedParts,
} from '../../support/storage/several-servers.js'
import { until } from '../../support/until.js'

const LOOPS = '/v1/preview/loops'
/** Short, so that what a killed server had is soon taken up; long enough for a living one on a busy machine. */
const LEASE_MS = 10_000
const LONG_MS = 400_000
const ROWS = ['e', 'a', 'i', 'o', 't', 'n'].map((part, i) => ({
  messages: [{ role: 'user', content: `Say ${part}, ${i}.` }],
  part,
}))
/** Some answers of the random model hold the row's part, some do not. */
const SMALL = {
  grader: {
    ...{ type: 'string_check', name: 'holds', operation: 'ilike' },
    ...{ input: '{{sample.output_text}}', reference: '{{item.part}}' },
  },
  ...{ steps: 2, prompts_per_step: 3, answers_per_prompt: 6, held_out_rows: 2, evaluate_every: 1, seed: 11 },
  sampling: { max_completion_tokens: 12 },
  config: { learning_rate: 1e-3, seed: 3 },
}
const PHASES = ['sampling', 'grading', 'training', 'evaluating']

describe.skipIf(NO_SEVERAL_SERVERS !== null)(NO_SEVERAL_SERVERS ?? 'a loop at two servers', () => {
  let shared: SharedParts
  beforeAll(async () => {
    shared = await startSharedParts()
  })
  afterAll(() => shared?.stop())

  it('is taken by the other when the one that has it is killed, and ends with the same bits', {
    timeout: 900_000,
  }, async () => {
    const tuning = {
      serverLeaseMs: LEASE_MS,
      jobs: { leaseMs: LEASE_MS, startMs: 60_000 },
      plugins: { loops: { pollMs: 50, retryMs: 10, leaseMs: LEASE_MS } },
    }
    const options = { trainWorkers: 1, tuning }
    const group = await startGroup(await shared.newGroup(), [options, options])
    onTestFinished(() => group.stop())
    const body = ROWS.map((row) => JSON.stringify(row)).join('\n')
    const prompts = await group.ask<{ id: string }>('/v1/files?filename=prompts.jsonl', { body, key: 'prompts' })
    const create = async (name: string): Promise<Loop> => {
      const model_id = await group.at(0).createModel(name)
      return await group.ask<Loop>(LOOPS, { json: { model_id, prompts_file: prompts.id, ...SMALL }, key: name })
    }
    const read = (id: string) => group.ask<Loop>(`${LOOPS}/${id}`)
    const ended = async (id: string): Promise<Loop> => {
      const loop = await until(
        async () => {
          const now = await read(id)
          return now.ended_at === null ? null : now
        },
        'the end of a loop',
        LONG_MS,
      )
      expect(loop.error).toBeNull()
      expect(loop.status).toBe('succeeded')
      return loop
    }
    const alone = await ended((await create('alone')).id)

    const { id } = await create('disturbed')
    const holders: number[] = []
    for (const [step, phase] of [
      [0, 'sampling'],
      [0, 'training'],
      [1, 'sampling'],
    ] as const) {
      await until(
        async () => placeOf(await read(id)) >= 4 * step + PHASES.indexOf(phase),
        `${phase} of step ${step}`,
        LONG_MS,
      )
      const holder = await until(async () => holderOf(group), 'who has the loop', LONG_MS)
      await group.kill(holder.place)
      holders.push(holder.place)
      const other = await until(
        async () => {
          const now = holderOf(group)
          return (now !== null || (await read(id)).ended_at !== null) && { now }
        },
        'the other server with the loop',
        LONG_MS,
      )
      if (other.now !== null) expect(other.now.place).not.toBe(holder.place)
      await group.start(holder.place)
    }
    const disturbed = await ended(id)
    expect(holders.length).toBe(3)
    expect(disturbed.evaluations).toEqual(alone.evaluations)
    const { data: jobs } = await group.ask<{ data: unknown[] }>(
      `/v1/preview/training-jobs?model_id=${disturbed.model_id}`,
    )
    expect(jobs, 'one job a step').toHaveLength(SMALL.steps)
    expect(await metricsOf(group, id)).toEqual([0, 1, 2])
    expect(await adapterOf(group, disturbed)).toBe(await adapterOf(group, alone))
    const { data: files } = await group.ask<{ data: { filename: string }[] }>('/v1/files?limit=100')
    expect(files.filter(({ filename }) => filename.includes(id))).toEqual([])
  })
})

/** How far a loop is; below zero: in the evaluation before its first step. */
function placeOf({ phase, step, evaluations, ended_at: ended }: Loop): number {
  if (ended !== null) return Number.POSITIVE_INFINITY
  if (phase === null || (phase === 'evaluating' && evaluations.length === 0)) return -1
  return 4 * step + PHASES.indexOf(phase)
}

/** The living server whose child runs the one loop. */
function holderOf(group: Group): { readonly place: number } | null {
  const lines = execFileSync('ps', ['-eo', 'ppid,args'], { encoding: 'utf8' }).split('\n')
  const parents = lines.flatMap((line) =>
    line.includes('plugins/loops/process/main.js') ? Number.parseInt(line.trim(), 10) : [],
  )
  const place = group.places.findIndex(({ server }) => server !== null && parents.includes(server.pid))
  return place === -1 ? null : { place }
}

async function metricsOf(group: Group, id: string): Promise<readonly unknown[]> {
  const { data } = await group.ask<{ data: LoopEventBody[] }>(`${LOOPS}/${id}/events?limit=100&type=metrics`)
  return data.map(({ data: metrics }) => metrics['step'])
}

async function adapterOf(group: Group, { model_id: modelId }: Loop): Promise<string> {
  const path = `/v1/preview/models/${modelId}/checkpoints/${SMALL.steps}/files/adapter_model.safetensors`
  const response = await group.at(0).fetch(path)
  expect(response.status).toBe(200)
  const bytes = Buffer.from(await response.arrayBuffer())
  return createHash('sha256').update(bytes).digest('hex')
}
