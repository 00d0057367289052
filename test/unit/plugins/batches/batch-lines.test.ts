/**
 * Lines of batches: what is refused before any is asked, and what stands in the files that come out.
 */
import { describe, expect, it } from 'vitest'
import { addUsage, answerLine, checkLines, expiredLine, openLines, usageOf } from '#plugins/batches/batch-lines.js'
import { formatLines, readLineSet } from '#plugins/batches/line-set.js'
import { NO_USAGE } from '#plugins/batches/storage/batches.js'

const CHAT = '/v1/chat/completions'
const line = (customId: string, changes: object = {}): string =>
  JSON.stringify({ custom_id: customId, method: 'POST', url: CHAT, body: { messages: [] }, ...changes })

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text)
  // torn anywhere
  for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7)
}
const check = (lines: readonly string[]) => checkLines(bytesOf(lines.join('\n')), CHAT)

describe('lines of a batch', () => {
  it('are counted without blank ones', async () => {
    expect(await check([line('a'), '', line('b'), '  '])).toEqual({ count: 2, errors: [] })
  })

  it.each([
    ['nothing', [''], null, 'empty_file', null],
    ['no JSON', [line('a'), '{'], 2, 'invalid_json_line', null],
    ['a list', ['[]'], 1, 'invalid_json_line', null],
    ['an id that was there', [line('a'), line('b'), line('a')], 3, 'duplicate_custom_id', 'custom_id'],
    ['no id', [line('')], 1, 'invalid_custom_id', 'custom_id'],
    ['a long id', [line('x'.repeat(513))], 1, 'invalid_custom_id', 'custom_id'],
    ['another method', [line('a', { method: 'GET' })], 1, 'invalid_method', 'method'],
    ['another endpoint', [line('a', { url: '/v1/completions' })], 1, 'invalid_url', 'url'],
    ['no body', [line('a', { body: undefined })], 1, 'invalid_body', 'body'],
    ['a stream', [line('a', { body: { stream: true } })], 1, 'stream_not_supported', 'body.stream'],
    ['a line that is too long', [line('a', { body: { x: 'y'.repeat(4 * 1024 ** 2) } })], 1, 'line_too_long', null],
  ])('are refused for %s, by line', async (_, lines, number, code, param) => {
    const { errors } = await check(lines)
    expect(errors).toEqual([{ line: number, code, param, message: expect.any(String) }])
  })

  it('are at most 50,000, and a hundred errors are told', async () => {
    const many = Array.from({ length: 50_001 }, (_, i) => line(`${i}`))
    async function* source(lines: readonly string[]) {
      for (const each of lines) yield Buffer.from(`${each}\n`)
    }
    expect((await checkLines(source(many), CHAT)).errors).toMatchObject([{ line: 50_001, code: 'too_many_lines' }])
    expect(await checkLines(source(many.slice(0, 50_000)), CHAT)).toEqual({ count: 50_000, errors: [] })
    const wrong = Array.from({ length: 300 }, () => '{')
    expect((await checkLines(source(wrong), CHAT)).errors).toHaveLength(100)
  })

  it('are asked as they were written, but those that are done', async () => {
    const body = '{"seed":12345678901234567890,"temperature":0.5}'
    const text = `${line('a')}\n\n{"custom_id":"b","method":"POST","url":"${CHAT}","body":${body}}\n`
    const open: unknown[] = []
    for await (const each of openLines(bytesOf(text), { endpoint: CHAT, isDone: (n) => n === 1 })) open.push(each)
    expect(open).toEqual([{ number: 3, customId: 'b', body }])
  })

  it('stand in files with what they were answered, as it came', () => {
    const asked = { number: 3, customId: 'ä "b"', body: '{}' }
    const body = '{"n":12345678901234567890}'
    const text = answerLine('batch_1', asked, { status: 200, requestId: 'r', body })
    expect(text.endsWith('}\n')).toBe(true)
    expect(text).toContain(body)
    expect(JSON.parse(text)).toMatchObject({
      id: 'batch_req_1_3',
      custom_id: asked.customId,
      response: { status_code: 200, request_id: 'r' },
      error: null,
    })
    const expired = { id: 'batch_req_1_3', response: null, error: { code: 'batch_expired' } }
    expect(JSON.parse(expiredLine('batch_1', asked))).toMatchObject(expired)
  })
})

describe('usage', () => {
  it('is added up in the words of chat and of responses', () => {
    const chat = usageOf({
      usage: { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 1 } },
    })
    const response = usageOf({
      usage: { input_tokens: 10, output_tokens: 5, output_tokens_details: { reasoning_tokens: 4 } },
    })
    expect(addUsage(chat, response)).toEqual({
      input_tokens: 13,
      input_tokens_details: { cached_tokens: 1 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 4 },
      total_tokens: 20,
    })
    expect(usageOf({ error: {} })).toEqual(NO_USAGE)
  })
})

describe('sets of lines', () => {
  it('are ranges in rows, and say exactly their own', () => {
    expect(formatLines([5, 1, 2, 3, 9, 8])).toBe('1-3,5,8-9')
    expect(formatLines([])).toBe('')
    const texts = [formatLines([1, 2, 3, 64, 65]), '', formatLines([49_999, 70_000])]
    const set = readLineSet(texts)
    const found = Array.from({ length: 80_000 }, (_, i) => i).filter((i) => set.has(i))
    expect(found).toEqual([1, 2, 3, 64, 65, 49_999, 70_000])
  })
})
