import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import {
  NO_ANSWER,
  problemOf,
  readSettings,
  toBody,
  toMessages,
} from '../../../../../../../src/plugins/page/browser/data/play/request.js'
import { snippetsOf } from '../../../../../../../src/plugins/page/browser/data/play/snippets.js'

const settingsOf = (query: string) => {
  const read = new URLSearchParams(query)
  return readSettings((name) => read.get(name))
}
const TOOLS = JSON.stringify([{ type: 'function', function: { name: 'get_weather', parameters: { strict: null } } }])
const SAID = `it's "quoted" \\ 'twice' \n $HOME \u2028 ✓`

describe('what Play asks for', () => {
  test('settings that are not there are the defaults of the page, and unknown words are the first', () => {
    const settings = settingsOf('format=xml&temperature=&seed=x')
    expect(settings).toMatchObject({ format: 'text', temperature: null, seed: null })
    expect(toBody('m', [], settingsOf(''))).toEqual({ model: 'm', messages: [], max_tokens: 256 })
  })

  test('a model is sampled as its files say until a setting says otherwise', () => {
    const own = { temperature: 0.6, top_p: 0.9, top_k: 20 }
    const body = toBody('a/b', [{ role: 'user', content: 'Hi' }], settingsOf(''), own)
    expect(body).toMatchObject(own)
    const [terminal, , python] = snippetsOf(body, 'http://h/v1', own)
    expect(terminal?.text).toBe('trainyard chat a/b --max-tokens 256 -- Hi')
    expect(python?.text).toContain('extra_body={"top_k": 20},')
    const other = toBody('m', [], settingsOf('temperature=0.5'), own)
    expect(other).toEqual({ model: 'm', messages: [], temperature: 0.5, top_p: 1, max_tokens: 256 })
  })

  test('tools and schema are part of the request, and what is wrong with them is said by name', () => {
    const schema = JSON.stringify({ type: 'object' })
    const settings = settingsOf(
      new URLSearchParams({ tools: TOOLS, tool_choice: 'required', format: 'json_schema', schema }).toString(),
    )
    expect(toBody('m', [], settings)).toMatchObject({
      tools: JSON.parse(TOOLS),
      tool_choice: 'required',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', strict: true, schema: { type: 'object' } },
      },
    })
    expect(problemOf(settings)).toBeNull()
    expect(problemOf(settingsOf('tools=[1]'))).toMatch(/^Tools: /)
    expect(problemOf(settingsOf('tools={'))).toMatch(/^Tools: no JSON/)
    expect(problemOf(settingsOf('format=json_schema'))).toMatch(/^Schema: /)
    expect(problemOf(settingsOf('schema=nonsense')), 'not asked for').toBeNull()
  })

  test('calls and their results are said again; what got no answer is not', () => {
    const call = { id: 'c', type: 'function' as const, function: { name: 'f', arguments: '{}' } }
    const messages = toMessages([
      { asked: [{ role: 'user', content: 'lost' }], answer: NO_ANSWER },
      { asked: [{ role: 'user', content: 'a' }], answer: { ...NO_ANSWER, calls: [call] } },
      {
        asked: [{ role: 'tool', tool_call_id: 'c', content: '1' }],
        answer: { ...NO_ANSWER, text: 'one', finish: 'stop' },
      },
    ])
    expect(messages).toEqual([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c', content: '1' },
      { role: 'assistant', content: 'one' },
    ])
  })
})

describe('a request as a program makes it', () => {
  const body = toBody(
    'a/b:step1',
    [{ role: 'user', content: SAID }],
    settingsOf(new URLSearchParams({ system: SAID, tools: TOOLS, seed: '3', logprobs: '1' }).toString()),
  )
  const textOf = (title: string) =>
    snippetsOf(body, 'http://h/v1').find((snippet) => snippet.title === title)?.text ?? ''

  test('a shell hands the same JSON to curl', () => {
    // the function stands where the program would, and prints its last argument
    const script = `curl() { for last; do :; done; printf %s "$last"; }\n${textOf('curl')}`
    const { stdout, status } = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
    expect(status).toBe(0)
    expect(JSON.parse(stdout)).toEqual(body)
  })

  test('JavaScript reads the same values', () => {
    const object = /create\((\{[\s\S]*\})\)/.exec(textOf('TypeScript'))?.[1] ?? ''
    expect(new Function(`return ${object}`)()).toEqual(body)
  })

  test.skipIf(spawnSync('python3', ['--version']).status !== 0)('Python reads the same values', () => {
    const call = /create\([\s\S]*?\n\)/.exec(textOf('Python'))?.[0].replace('create', 'dict') ?? ''
    const { stdout, stderr } = spawnSync('python3', ['-c', `import json\nprint(json.dumps(${call}))`], {
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual(body)
  })

  test('the command line says one message; tools take a file there, so it is not offered', () => {
    expect(snippetsOf(body, 'http://h/v1').map(({ title }) => title)).toEqual(['curl', 'Python', 'TypeScript'])
    const plain = toBody('a/b', [{ role: 'user', content: 'Hi' }], settingsOf('system=Be+brief&temperature=0'))
    expect(snippetsOf(plain, 'http://h/v1')[0]?.text).toBe(
      "trainyard chat a/b --system 'Be brief' --temperature 0 --top-p 1 --max-tokens 256 -- Hi",
    )
  })
})
