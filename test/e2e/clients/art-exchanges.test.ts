/**
 * The newest client of the hosted service records what a program asks for by itself, over four protocols, and trains on it.
 *
 * It needs Python 3.12 or newer; `.ci/run` installs it where there is one. The older client is in `art-client.test.ts`.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { startService } from '../../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../../.cache/newest-art-venv/bin/python')
const KINDS = ['chat_completions', 'completions', 'responses', 'messages'] as const

test.skipIf(!existsSync(PYTHON))(
  'openpipe-art 0.5.23: recorded exchanges of every kind train (skipped without .cache/newest-art-venv, see .ci/run)',
  { timeout: 600_000 },
  async () => {
    const service = await startService()
    try {
      const script = path.join(import.meta.dirname, 'art_exchanges.py')
      const { stdout } = await promisify(execFile)(PYTHON, [script, service.url, service.key, 'trainyard/spark'], {
        timeout: 550_000,
        maxBuffer: 1 << 24,
      })
      const seen = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<
        string,
        { recorded: number; step: number; metrics: Record<string, number> }
      >
      for (const [i, kinds] of [...KINDS, KINDS.join('+')].entries()) {
        const group = seen[kinds]
        expect(group, kinds).toMatchObject({ recorded: 4, step: i + 1 })
        // every trajectory trains on the tokens that it was sampled with
        expect(group?.metrics, kinds).toMatchObject({
          'data/step_num_gradient_steps': 1,
          'data/step_num_groups_trainable': 1,
        })
        expect(group?.metrics['data/step_trainable_assistant_tokens'], kinds).toBeGreaterThanOrEqual(4)
        expect(group?.metrics['importance_ratio_mean'], kinds).toBeCloseTo(1, 3)
      }
    } finally {
      await service.stop()
    }
  },
)
