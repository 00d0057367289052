/**
 * Anthropic's client for Python: messages whole and streamed, tools, a schema, counted tokens, its exceptions.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../.cache/venv/bin/python')

test.skipIf(!existsSync(PYTHON))(
  'anthropic for Python: texts, tools, a schema, exceptions (skipped without .cache/venv, see .ci/run)',
  async () => {
    const service = await startService()
    try {
      const script = path.join(import.meta.dirname, 'clients/anthropic_messages.py')
      const seen = await seenByClient(PYTHON, [script, service.url, service.key, 'trainyard/spark'], {
        timeoutMs: 550_000,
      })
      expect(seen).toEqual({
        texts: { same: true, stop_reason: expect.stringMatching(/^(end_turn|max_tokens)$/), counted: true },
        tools: { called: ['weather', ['city'], 'tool_use'], same: true, answered: 'text' },
        schema: true,
        bad: ['BadRequestError', 400, 'invalid_request_error', true],
        missing: ['NotFoundError', 404, 'not_found_error', true],
      })
    } finally {
      await service.stop()
    }
  },
)
