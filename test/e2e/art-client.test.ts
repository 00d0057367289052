/**
 * The hosted service's own client library, unchanged, trains a model here: register, roll out, train, roll out again.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../.cache/venv/bin/python')
const HAS_CLIENT = existsSync(path.resolve(PYTHON, '../../lib')) && existsSync(PYTHON)

test.skipIf(!HAS_CLIENT)(
  'openpipe-art: reinforcement learning raises the mean reward (skipped without .cache/venv, see .ci/run)',
  { timeout: 1_000_000 },
  async () => {
    const service = await startService()
    try {
      const seen = await seenByClient<{
        entity: string
        first_step: number
        before: number
        after: number
        steps: number[]
        rewards: number[]
        metrics: Record<string, number>[]
      }>(
        PYTHON,
        [path.join(import.meta.dirname, 'clients/art_rl.py'), service.url, service.key, 'trainyard/spark', '30'],
        { timeoutMs: 950_000 },
      )
      expect(seen.entity).toBe('local')
      expect(seen.first_step).toBe(0)
      expect(seen.steps.length).toBeGreaterThan(0)
      expect(seen.steps).toEqual(seen.steps.map((_, index) => index + 1))
      expect(seen.metrics[0]).toHaveProperty('loss/grad_norm')
      expect(seen.metrics[0]?.['data/step_num_gradient_steps']).toBeGreaterThan(0)
      // The client trains until 64 answers show a rise of 0.3; the standard error of either mean here is at most 0.03.
      const course = seen.rewards.map((reward) => reward.toFixed(2)).join(' ')
      expect(seen.after, `before training ${seen.before}, then ${course}`).toBeGreaterThan(seen.before + 0.1)
    } finally {
      await service.stop()
    }
  },
)
