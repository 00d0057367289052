/**
 * The unmodified Tinker client: a pipelined loop, policy losses, samples, scores, states and what they go on with.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { seenByClient } from '../../support/clients/run-client.js'
import { startService } from '../../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../../.cache/tinker-venv/bin/python')

interface Seen {
  readonly losses: readonly [number, number, number, number, number]
  readonly policy: Readonly<Record<'importance_sampling' | 'ppo' | 'cispo' | 'dro', number>>
  readonly now: number
  readonly refused: string
  readonly answers: readonly (readonly [number, number, string])[]
  readonly scored: readonly [null, number]
  readonly resumed: readonly [number, number]
  readonly tokens: number
  readonly kept: readonly string[]
}

test.skipIf(!existsSync(PYTHON))(
  'tinker for Python trains, samples, saves and resumes (skipped without .cache/tinker-venv, see .ci/run)',
  async () => {
    const service = await startService()
    try {
      const script = path.join(import.meta.dirname, '../clients/tinker_loop.py')
      const said = await seenByClient<Seen>(PYTHON, [script, service.url, service.key, 'trainyard/spark'], {
        timeoutMs: 550_000,
        env: { TINKER_TELEMETRY: '0' },
        mayAbortAtExit: true,
      })
      expect(said.losses).toHaveLength(5)
      expect(said.losses[4]).toBeLessThan(said.losses[0] / 2)
      // where the policy is the sampler, every ratio is 1
      expect(said.policy.importance_sampling).toBeCloseTo(-7, 4)
      expect(said.policy.ppo).toBeCloseTo(-7, 4)
      expect(said.policy.cispo).toBeCloseTo(said.now, 3)
      expect(said.policy.dro).toBeCloseTo(said.now, 3)
      expect(said.refused).toContain('loss_fn must be one of cross_entropy')
      expect(said.answers).toHaveLength(3)
      for (const [tokens, logprobs, reason] of said.answers) {
        expect(tokens).toBe(logprobs)
        expect(reason).toMatch(/^(stop|length)$/)
      }
      expect(said.scored[0]).toBeNull()
      expect(said.scored[1]).toBeLessThan(0.1)
      expect(said.resumed[1]).toBe(said.resumed[0])
      expect(said.tokens).toBeGreaterThan(0)
      expect(said.kept).toEqual(['sampler_weights/final', 'weights/five'])
    } finally {
      await service.stop()
    }
  },
)
