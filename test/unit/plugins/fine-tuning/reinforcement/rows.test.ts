/**
 * Rows of reinforcement jobs: what is a row, and what a grader's templates find in them.
 */
import { describe, expect, it } from 'vitest'
import { checkRows } from '#plugins/fine-tuning/reinforcement/rows.js'
import { readGrader } from '#plugins/graders/grading/spec.js'

const user = { role: 'user', content: 'Capital of France?' }
const check = { type: 'string_check', operation: 'eq', input: '{{sample.output_text}}' }
const grader = readGrader({ ...check, reference: '{{ item.answer.city }}' })
const right = { answer: { city: 'Paris' } }

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text)
}
const read = (rows: readonly object[], most = 10) =>
  checkRows(
    bytes(rows.map((row) => `${JSON.stringify(row)}\n`).join('')),
    { field: 'training_file', most },
    { grader, param: 'method.reinforcement.grader' },
  )

describe('rows', () => {
  it('are conversations that wait for an answer, with anything beside them', async () => {
    const tools = [
      user,
      { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f' } }] },
      { role: 'tool', tool_call_id: 'c', content: '1' },
    ]
    const rows = [
      { messages: [{ role: 'developer', content: 'Be short.' }, user], ...right, level: 3 },
      { messages: tools, ...right },
      { messages: [{ role: 'system', content: 'x' }, user], ...right, tools: null },
      {
        ...{ messages: [user], ...right },
        tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
        response_format: { type: 'json_object' },
      },
    ]
    expect(await read(rows)).toEqual({ count: 4, notes: [] })
  })

  it.each([
    ['no messages', { ...right }, 'invalid_example'],
    ['no list', { messages: 'hi', ...right }, 'invalid_example'],
    ['a list', [1], 'invalid_example'],
    ['an unknown role', { messages: [{ role: 'critic', content: 'x' }, user], ...right }, 'invalid_example'],
    ['an answer', { messages: [user, { role: 'assistant', content: 'Paris' }], ...right }, 'wrong_last_role'],
    ['a system message alone', { messages: [{ role: 'system', content: 'x' }], ...right }, 'wrong_last_role'],
    ['tools that are none', { messages: [user], ...right, tools: 'f' }, 'invalid_example'],
    ['an unknown form', { messages: [user], ...right, response_format: { type: 'xml' } }, 'invalid_example'],
    [
      'a form without schema',
      { messages: [user], ...right, response_format: { type: 'json_schema' } },
      'invalid_example',
    ],
  ])('with %s are refused by line and file', async (_, row, code) => {
    const good = { messages: [user], ...right }
    await expect(read([good, row])).rejects.toMatchObject({ code, param: 'training_file', details: { line: 2 } })
  })

  it('may be so many', async () => {
    const rows = Array.from({ length: 3 }, () => ({ messages: [user], ...right }))
    expect(await read(rows, 3)).toMatchObject({ count: 3 })
    await expect(read(rows, 2)).rejects.toMatchObject({ code: 'too_many_rows', details: { line: 3 } })
  })
})

describe("a grader's paths", () => {
  it('that some rows do not have are said with their lines', async () => {
    const gap = { messages: [user], answer: { city: null } }
    const [one, two] = [
      await read([{ messages: [user], ...right }, gap]),
      await read([gap, gap, gap, gap, gap, gap, { messages: [user], ...right }]),
    ]
    expect(one.notes).toEqual([expect.stringContaining('{{ item.answer.city }} is not in 1 of the 2 rows')])
    expect(one.notes[0]).toContain('(line 2)')
    expect(two.notes[0]).toContain('(lines 1, 2, 3, 4, 5 and others)')
  })

  it('that no row has are refused', async () => {
    await expect(read([{ messages: [user], answer: 'Paris' }])).rejects.toMatchObject({
      code: 'invalid_grader',
      param: 'method.reinforcement.grader',
      message: expect.stringContaining('{{ item.answer.city }} is in no row of training_file'),
    })
  })
})
