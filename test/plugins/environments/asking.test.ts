/**
 * Environments that ask the model themselves, at addresses of a real server: agents that are commands, and, where Python has
 * it, verifiers.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { askedModel } from '#plugins/environments/episode.js'
import { type EnvironmentOptions, openEnvironment } from '#plugins/environments/open.js'
import type { AskedModel, EnvironmentSource } from '#plugins/environments/source.js'
import { createClient } from '#sdk/client/client.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { episodesOf } from './support/episodes.js'

const agent = join(import.meta.dirname, 'support', 'asking-agent.mjs')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-asking-'))
const tasksFile = join(folder, 'asks.jsonl')
const PROMPTS = ['say; $(yes)', 'fail', 'idle', 'hang', 'more']
writeFileSync(tasksFile, PROMPTS.map((prompt) => `${JSON.stringify({ prompt, wanted: 'yes' })}\n`).join(''))
let service: TestService
let model: AskedModel
beforeAll(async () => {
  service = await createTestService({ trainWorkers: 0 })
  await service.createModel('m')
  model = askedModel(createClient({ baseUrl: service.url, apiKey: service.apiKey }), 'm', { temperature: 0.7 })
})
afterAll(async () => {
  await service.dispose()
  rmSync(folder, { recursive: true, force: true })
})

const judge: Parameters<typeof episodesOf>[2] = {
  judge: async (trajectory) => {
    trajectory.reward = trajectory.answer.length > 0 ? 1 : 0
  },
}

async function play(source: EnvironmentSource, place: number, options: NonNullable<typeof judge> = judge ?? {}) {
  const { episodes } = await episodesOf(source, model, options)
  const [task] = await source.tasks('train', place, 1)
  if (task === undefined) throw new Error('no task')
  return await episodes.play(task, { group: 'g', index: 0 })
}

describe('an agent', () => {
  const open = (dialect = 'chat', options: EnvironmentOptions = {}) =>
    openEnvironment(`agent:"${process.execPath}" "${agent}" {prompt} ${dialect}`, {
      ...{ tasksFile, isJudgedElsewhere: true, ...options },
    })

  it.each(['chat', 'messages'])('is recorded by ids where it asks in %s, in a folder of its own', async (dialect) => {
    const template = join(folder, dialect)
    mkdirSync(template)
    writeFileSync(join(template, 'given.txt'), 'given')
    const source = await open(dialect, { settings: { template } })
    const trajectory = await play(source, 0)
    // the stand-in of the engine renders no conversation: each of its answers begins a history
    const choices = trajectory.histories.flatMap(({ items }) => items.filter((item) => 'message' in item))
    expect(choices).toHaveLength(2)
    // no shell has read it
    expect(trajectory.messages[0]?.content).toBe('say; $(yes)')
    for (const { token_ids: ids, prompt_token_ids: prompt, sampling } of trajectory.choices) {
      expect(ids?.length).toBeGreaterThan(0)
      expect(prompt?.length).toBeGreaterThan(0)
      expect(sampling ?? { temperature: 0.7 }).toMatchObject({ temperature: 0.7 })
    }
    expect(trajectory).toMatchObject({ reward: 1, initialVersion: 0, metrics: { 'env/turns': 2 } })
    const work = String(trajectory.metadata['folder'])
    expect(readFileSync(join(work, 'answer.txt'), 'utf8')).toBe('say; $(yes)')
    expect(readFileSync(join(work, 'given.txt'), 'utf8')).toBe('given')
    expect(String(trajectory.metadata['output'])).toContain('SECRET=undefined')
    await source.close()
    expect(existsSync(work)).toBe(false)
    // what is played is kept by who plays
    expect((await service.json<{ data: object[] }>('/v1/preview/rollouts')).body.data).toEqual([])
  })

  it.each([
    [1, 'env_crashed', 'it broke'],
    [2, 'env_error', 'no answer'],
  ])('that fails at task %i is a failure of the kind %s', async (place, code, said) => {
    const source = await open()
    const message = expect.stringContaining(said)
    await expect(play(source, place)).rejects.toMatchObject({ code, message })
    await source.close()
    expect((await service.json<{ data: object[] }>('/v1/preview/rollouts')).body.data).toEqual([])
  })

  it('that does not end is ended', async () => {
    const source = await open()
    await expect(play(source, 3, { ...judge, episodeTimeoutMs: 1500 })).rejects.toMatchObject({ code: 'env_timeout' })
    await source.close()
  })

  it('needs tasks, and who judges', async () => {
    await expect(openEnvironment('agent:true')).rejects.toMatchObject({ code: 'tasks_missing' })
    const source = await open('chat', { isJudgedElsewhere: false })
    await expect(play(source, 0, {})).rejects.toMatchObject({ code: 'reward_invalid' })
  })
})

const python = join(packageRoot(), '.cache', 'verifiers-venv', 'bin', 'python')
describe.skipIf(!existsSync(python))(
  'verifiers 0.4 (skipped without .cache/verifiers-venv, which has it, and what its agents need in the cache of uv)',
  () => {
    it('plays episodes side by side, each recorded under its own trace', { timeout: 600_000 }, async () => {
      const source = await openEnvironment('verifiers:toy_v1', {
        ...{
          python,
          settings: { size: 6 },
          variables: { PYTHONPATH: join(import.meta.dirname, 'support'), UV_OFFLINE: '1', UV_SYSTEM_CERTS: '1' },
        },
      })
      try {
        expect(await source.describe()).toMatchObject({ tasks: 6, version: expect.stringMatching(/^0\.4/) })
        const tasks = await source.tasks('train', 0, 6)
        expect(new Set(tasks.map(({ key }) => key)).size).toBe(6)
        // six programs are started at once, each of which gets an environment of its own first
        const { episodes } = await episodesOf(source, model, { episodeTimeoutMs: 500_000 })
        const played = await Promise.all(tasks.map((task, index) => episodes.play(task, { group: 'g', index })))
        for (const [i, trajectory] of played.entries()) {
          expect(trajectory.choices).toHaveLength(1)
          expect(JSON.stringify(trajectory.messages)).toContain(`has ${'ab'.repeat(i + 1)}?`)
          expect(trajectory.choices[0]?.token_ids?.length).toBeGreaterThan(0)
          const score = trajectory.metrics['reward/length']
          expect([0, 1]).toContain(score)
          expect(trajectory.reward).toBe(0.5 * Number(score))
        }
      } finally {
        await source.close()
      }
    })
  },
)
