/**
 * OpenAI's own SDKs for Node.js and Python upload in parts, have a file of requests answered, and measure answers.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'

const CACHE = path.resolve(import.meta.dirname, '../../.cache')
const NEWEST = path.join(CACHE, 'newest-clients')
const MODEL = 'trainyard/spark'
const TIMEOUT_MS = 300_000

let service: Awaited<ReturnType<typeof startService>>
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

describe.each([
  ['Node.js', process.execPath, 'openai_evals.js', [path.resolve(import.meta.dirname, '../..')]],
  ['Node.js, the newest', path.join(NEWEST, 'node_modules/node/bin/node'), 'openai_evals.js', [NEWEST]],
  ['Python', path.join(CACHE, 'venv/bin/python'), 'openai_evals.py', []],
  ['Python, the newest', path.join(CACHE, 'newest-venv/bin/python'), 'openai_evals.py', []],
] as const)('%s', (_, program, script, args) => {
  test.skipIf(!existsSync(program))(
    'uploads, a batch and evals (skipped without .cache, see .ci/run)',
    { timeout: TIMEOUT_MS },
    async () => {
      const file = path.join(import.meta.dirname, 'clients', script)
      const run = { timeoutMs: TIMEOUT_MS - 10_000 }
      expect(await seenByClient(program, [file, ...args, service.url, service.key, MODEL], run)).toEqual({
        upload: ['completed', true],
        batch: ['completed', 5, true, true],
        eval: ['eval', 'custom', ['string_check', 'text_similarity'], 'numbers', 'renamed', true],
        given: [
          'completed',
          [2, 1, 1, 0],
          [
            ['equal', 1],
            ['near', 1],
          ],
          ['pass', 'fail'],
          true,
          1,
        ],
        asked: ['completed', true, 1, 'Say one.', true],
        runs: true,
        deleted: [true, true],
        gone: 'eval_not_found',
      })
    },
  )
})
