/**
 * verifiers 0.4 itself, unmodified, against a real model: its own training client at the address of a run, and environments of
 * its own tests through the bridge.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { askedModel } from '#plugins/environments/episode.js'
import { openEnvironment } from '#plugins/environments/open.js'
import type { AskedModel } from '#plugins/environments/source.js'
import type { CreatedRollout } from '#plugins/recording/wire.js'
import { createClient } from '#sdk/client/client.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { episodesOf } from './support/episodes.js'

const BASE = 'trainyard/spark'
const bin = join(packageRoot(), '.cache', 'verifiers-venv', 'bin')
const python = join(bin, 'python')
const fixtures = join(packageRoot(), '.cache', 'verifiers-source', 'tests', 'v1', 'fixtures')
const client = join(import.meta.dirname, 'support', 'train_client.py')
// what its agents are made of is fetched by uv, or lies in its cache
const variables = { PATH: `${bin}:${process.env['PATH']}`, PYTHONPATH: fixtures, UV_NATIVE_TLS: '1' }

interface Trace {
  readonly id: string
  readonly errors: readonly string[]
  readonly turns: readonly { readonly token_ids: readonly number[]; readonly logprobs: readonly number[] }[]
}
interface Recorded {
  readonly trajectory: {
    readonly messages_and_choices: readonly {
      readonly message?: object
      readonly token_ids: readonly number[]
      readonly logprobs: { readonly content: readonly { readonly logprob: number }[] }
    }[]
  }
}

describe.skipIf(!existsSync(python) || !existsSync(fixtures))(
  'verifiers (skipped without .cache/verifiers-venv and .cache/verifiers-source)',
  () => {
    let service: TestService
    let model: AskedModel
    beforeAll(async () => {
      service = await createTestService({ scripted: false, trainWorkers: 0, baseModels: [BASE] })
      const json = { project: 'p', name: 'vf', base_model: BASE }
      await service.json('/v1/preview/models', { json })
      model = askedModel(createClient({ baseUrl: service.url, apiKey: service.apiKey, timeoutMs: 200_000 }), 'p/vf', {
        maxTokens: 16,
      })
    })
    afterAll(() => service.dispose())

    it('trains by its own client: 16 rollouts, ids and log-probabilities as they were recorded', {
      timeout: 900_000,
    }, async () => {
      const json = { model: 'p/vf', run: 'client', task: 't', group: 'g', sessions: true }
      const { body: rollout } = await service.json<CreatedRollout>('/v1/preview/rollouts', { json })
      const tokenizer = join(packageRoot(), 'src', 'assets', 'spark')
      const { stdout } = await promisify(execFile)(python, [client, rollout.base_url, 'p/vf', tokenizer, '16'], {
        env: { HOME: process.env['HOME'], ROLLOUT_KEY: rollout.api_key, ...variables },
        maxBuffer: 64 * 1024 * 1024,
      })
      const traces = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as readonly Trace[]
      expect(traces).toHaveLength(16)
      for (const { id, errors, turns } of traces) {
        expect(errors).toEqual([])
        const { body: ended } = await service.json<{ id: string }>(`/v1/preview/rollouts/${rollout.id}/finish`, {
          json: { session: id },
        })
        const { body } = await service.json<Recorded>(`/v1/preview/rollouts/${ended.id}`)
        const choices = body.trajectory.messages_and_choices.filter(({ message }) => message !== undefined)
        expect(turns.map(({ token_ids: ids }) => ids)).toEqual(choices.map(({ token_ids: ids }) => ids))
        for (const [i, { logprobs }] of turns.entries()) {
          const wanted = choices[i]?.logprobs.content.map(({ logprob }) => logprob) ?? []
          expect(logprobs).toHaveLength(wanted.length)
          logprobs.forEach((logprob, t) => {
            expect(Math.abs(logprob - (wanted[t] ?? 1))).toBeLessThan(1e-6)
          })
        }
      }
    })

    it.each(['echo_v1', 'counter_tool_v1', 'echo_tool_v1', 'echo_agentic_v1'])(
      'plays %s, recorded by ids',
      { timeout: 900_000 },
      async (name) => {
        const source = await openEnvironment(`verifiers:${name}`, { python, maxTurns: 3, variables })
        try {
          const { episodes } = await episodesOf(source, model, { episodeTimeoutMs: 600_000 })
          const [task] = await source.tasks('train', 0, 1)
          const played = await episodes.play(task!, { group: 'g', index: 0 })
          const choices = played.histories.flatMap(({ items }) => items.filter((item) => 'message' in item))
          expect(choices.length).toBeGreaterThan(0)
          for (const { token_ids: ids, prompt_token_ids: prompt } of choices as typeof played.choices) {
            expect(ids?.length).toBeGreaterThan(0)
            expect(prompt?.length).toBeGreaterThan(0)
          }
          expect(Object.keys(played.metrics).some((metric) => metric.startsWith('reward/'))).toBe(true)
        } finally {
          await source.close()
        }
      },
    )

    it('names what it does not play', { timeout: 900_000 }, async () => {
      const source = await openEnvironment('verifiers:duet_v1', { python, variables })
      await expect(source.describe()).rejects.toMatchObject({ message: expect.stringContaining('has 2 seats') })
      await source.close()
    })
  },
)
