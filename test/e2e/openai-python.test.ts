/**
 * The official OpenAI client for Python: completions, responses, and the helpers that parse and stream.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../.cache/venv/bin/python')

test.skipIf(!existsSync(PYTHON))(
  'openai for Python: completions, responses, parse and stream helpers (skipped without .cache/venv, see .ci/run)',
  async () => {
    const service = await startService()
    try {
      const script = path.join(import.meta.dirname, 'clients/openai_routes.py')
      const seen = await seenByClient(PYTHON, [script, service.url, service.key, 'trainyard/spark'], {
        timeoutMs: 550_000,
      })
      const verdict = expect.stringMatching(/^(yes|no)$/)
      expect(seen).toEqual({
        completions: { same: true, scored: true },
        responses: {
          input_grows: true,
          first_and_last_event: ['response.created', expect.stringMatching(/^response\.(completed|incomplete)$/)],
          text_is_final: true,
          verdict,
          arguments: { verdict },
          input_items: 3,
          counted: true,
          is_gone: true,
        },
        chat: {
          ...{ parsed: verdict, streamed: verdict, has_content_events: true, has_tool_events: true, called: verdict },
          ...{ own_call: true, own_call_streamed: true },
        },
      })
    } finally {
      await service.stop()
    }
  },
)

test.skipIf(!existsSync(PYTHON))(
  'openai for Python: exceptions, raw answers, and the wait that a 429 names (skipped without .cache/venv, see .ci/run)',
  async () => {
    const service = await startService({ args: ['--requests-per-minute', '12', '--max-unfinished-bodies', '64KB'] })
    try {
      const script = path.join(import.meta.dirname, 'clients/openai_limits.py')
      const seen = await seenByClient(PYTHON, [script, service.url, service.key, 'trainyard/spark'], {
        timeoutMs: 550_000,
      })
      expect(seen).toEqual({
        raw: [200, '12', true, 'chat.completion'],
        bad: ['BadRequestError', 400, expect.anything(), false, true],
        stranger: ['AuthenticationError', 401, 'invalid_api_key', false, true],
        missing: ['NotFoundError', 404, expect.anything(), false, true],
        busy: ['InternalServerError', 503, 503, true, true],
        limited: ['RateLimitError', 429, 'rate_limit_exceeded', true, true],
        after_waiting: 'model',
      })
    } finally {
      await service.stop()
    }
  },
)
