/**
 * Maxima of clients' bodies: what is too long is refused with its field, the limit and its own length; what clients send is not.
 */
import { describe, expect, it } from 'vitest'
import type { RequestValidationError } from '#contract/wire/errors.js'
import { parseBody } from '#service/bodies/parse-body.js'
import { bodyOf } from '../../../support/service/with-plugins.js'

const parse = (name: string, body: object) => parseBody(bodyOf(name), [Buffer.from(JSON.stringify(body))])

function refusalOf(name: string, body: object): Pick<RequestValidationError, 'message' | 'sentence'> {
  try {
    parse(name, body)
  } catch (error) {
    const { message, sentence } = error as RequestValidationError
    return { message, sentence }
  }
  throw new Error('was taken')
}

const chat = { messages: [{ role: 'user', content: 'Hi' }] }
const sft = { model_id: '00000000-0000-7000-8000-000000000000', training_data_url: 'file-1' }

describe('what is too long', () => {
  it.each<[string, string, object, string, string]>([
    [
      'a name',
      'POST /v1/chat/completions',
      { ...chat, user: 'u'.repeat(70_000) },
      'user',
      '65536 characters, not 70000',
    ],
    [
      'a word',
      'POST /v1/chat/completions',
      { messages: [{ role: 'r'.repeat(1001) }] },
      'messages[0].role',
      '1000 characters, not 1001',
    ],
    ['a list', 'POST /api/v1/create_session', { tags: Array(300).fill('t') }, 'tags', '100 items, not 300'],
    [
      'data that is kept',
      'POST /api/v1/create_session',
      { user_metadata: { a: 'x'.repeat(70_000) } },
      'user_metadata',
      '65536 characters as JSON, not 70008',
    ],
    [
      'options',
      'POST /v1/preview/sft-training-jobs',
      { ...sft, config: { a: Array(40_000).fill(1) } },
      'config',
      '65536 characters as JSON, not 80007',
    ],
    [
      'a record',
      'POST /v1/completions',
      { prompt: 'a', vllm_xargs: Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [i, 1])) },
      'vllm_xargs',
      '1000 entries',
    ],
  ])('%s: the refusal names field, limit and length', (_, name, body, field, words) => {
    const { message, sentence } = refusalOf(name, body)
    expect(sentence).toContain(`${field}: `)
    expect(sentence).toContain(words)
    expect(sentence).not.toContain('got')
    expect(message).toContain(words)
    expect(message).toContain(`'${field.replace(/.*[.]/, '')}'`)
  })
})

it('texts of megabytes, ids that carry state and vocabularies of ids are taken', () => {
  const long = 'x'.repeat(1_000_000)
  const call = { id: 'c'.repeat(60_000), type: 'function', function: { name: 'f', arguments: long } }
  parse('POST /v1/chat/completions', {
    messages: [
      { role: 'user', content: long },
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c'.repeat(60_000), content: [{ type: 'text', text: long }] },
    ],
    tools: [{ type: 'function', function: { name: 'f', description: long, parameters: { type: 'object' } } }],
    allowed_token_ids: Array.from({ length: 262_144 }, (_, i) => i),
  })
})
