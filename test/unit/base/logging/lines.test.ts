/** Log records as a person sees them at a terminal. */
import { expect, test } from 'vitest'
import { breakLine, renderLine } from '../../../../src/base/logging/lines.js'

const request = (more: object) => ({ level: 30, event: 'http.request', request_id: 'r', duration_ms: 193.6, ...more })

test('one line per request that does something, with model and tokens', () => {
  const chat = { method: 'POST', path: '/v1/chat/completions', status: 200 }
  const trained = 'wandb-artifact:///local/default/orders'
  expect(renderLine(request({ ...chat, model: 'spark', completion_tokens: 26 }))).toBe(
    'POST /v1/chat/completions 200 194ms spark 26 tok',
  )
  expect(renderLine(request({ ...chat, model: trained, is_stream: true }))).toBe(
    'POST /v1/chat/completions 200 194ms local/default/orders stream',
  )
})
test('reads are left out unless they fail, and so is what the banner says', () => {
  const read = { method: 'GET', path: '/v1/models' }
  expect(renderLine(request({ ...read, status: 200 }))).toBeNull()
  expect(renderLine(request({ ...read, status: 404 }))).toBe('GET /v1/models 404 194ms')
  expect(renderLine({ level: 30, event: 'service.started', url: 'x' })).toBeNull()
  expect(renderLine({ level: 30, event: 'storage.swept', removed_blobs: 2 })).toBeNull()
})
test('anything else is its event and facts; a path cannot draw on the terminal', () => {
  expect(renderLine({ level: 40, event: 'job.failed', job_id: 'j', err: { message: 'disk full' } })).toBe(
    'warning: job.failed job_id=j disk full',
  )
  expect(renderLine(request({ method: 'POST', path: '/\u001b[2J\n', status: 404 }))).toBe('POST / [2J  404 194ms')
})
test('a line longer than the terminal is broken between its facts', () => {
  const line = 'engine.loaded base_model=trainyard/spark load_ms=503 precision=f32 precision_from=size'
  expect(breakLine(line, 80)).toBe(
    'engine.loaded base_model=trainyard/spark load_ms=503 precision=f32\n  precision_from=size',
  )
  expect(breakLine(line, 200)).toBe(line)
  expect(breakLine(`x ${'y'.repeat(100)} z`, 40)).toBe(`x\n  ${'y'.repeat(100)}\n  z`)
})
