/** Teachers of the settings: what is asked of them, with which key, and what is no teacher. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { readOutside } from '#plugins/graders/outside.js'

const NONE = { teachers: [], hosts: [], variables: [] }

it('a teacher is asked by its name, with the key of its variable', async () => {
  const seen: unknown[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += String(piece)
    seen.push(request.url, request.headers.authorization, JSON.parse(body))
    response.setHeader('content-type', 'application/json').end('{"choices":[]}')
  }).listen(0, '127.0.0.1')
  try {
    await new Promise((resolve) => server.once('listening', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
    const { teachers } = readOutside({ ...NONE, teachers: [`judge=${url},JUDGE_KEY`] }, { JUDGE_KEY: 'secret' })
    const request = { model: 'judge', messages: [], response_format: { type: 'json_schema' as const }, temperature: 0 }
    expect(await teachers.get('judge')?.(request, {})).toEqual({ choices: [] })
    expect(seen).toEqual(['/v1/chat/completions', 'Bearer secret', request])
  } finally {
    server.close()
  }
})

it.each([
  ['judge', /names no teacher/],
  ['judge=ftp://x', /must have an https: or http: address, got ftp:/],
  ['judge=https://x/v1,GONE', /key of the teacher judge is not in the variable GONE/],
])('%s is refused', (text, words) => {
  expect(() => readOutside({ ...NONE, teachers: [text] }, {})).toThrow(words)
})

it('headers may name the variables that were named and are set, and no others', () => {
  const { variables } = readOutside({ ...NONE, variables: ['A', 'C'] }, { A: '1', B: '2' })
  expect([...variables]).toEqual([['A', '1']])
})
