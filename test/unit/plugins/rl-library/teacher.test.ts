/** A teacher behind an address: what it is asked, how many questions at once, and what its refusals and failures come to. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { askTeacher } from '#plugins/rl-library/teacher.js'
import { createTeacher, type Teacher, type TeacherOptions, writeExamples } from '#rl.js'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

type Handle = (body: { readonly messages: readonly { content: string }[] }, response: ServerResponse) => unknown

/** A server of its own, with what it was asked. */
async function serve(handle: Handle, options: Partial<TeacherOptions> = {}) {
  const asked: { readonly path: string; readonly key: string | undefined; readonly body: unknown }[] = []
  const server = createServer(async (request: IncomingMessage, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = JSON.parse(Buffer.concat(parts).toString() || '{}')
    asked.push({ path: request.url ?? '', key: request.headers.authorization, body })
    handle(body, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => new Promise((resolve) => server.close(() => resolve())))
  const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const teacher: Teacher = createTeacher({ baseURL, apiKey: 'secret', model: 'big', ...options })
  return { teacher, asked, baseURL }
}

function answer(response: ServerResponse, content: string | null, finish = 'stop'): void {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content }, finish_reason: finish }] }))
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ error: { message } }))
}

const prompts = (count: number) => Array.from({ length: count }, (_, i) => [{ role: 'user', content: `q${i}` }])

test('whole answers that are kept become examples, without the system message that is the teacher’s alone', async () => {
  const { teacher, asked } = await serve(
    ({ messages }, response) => {
      const question = messages.at(-1)?.content ?? ''
      answer(response, `a ${question}`, question === 'q1' ? 'length' : 'stop')
    },
    { system: 'Be brief.', body: { temperature: 0 } },
  )
  const examples = await writeExamples(prompts(3), teacher, { keep: (text) => text !== 'a q0' })
  expect(examples).toEqual([
    {
      messages: [
        { role: 'user', content: 'q2' },
        { role: 'assistant', content: 'a q2' },
      ],
    },
  ])
  expect(asked[0]).toEqual({
    path: '/v1/chat/completions',
    key: 'Bearer secret',
    body: { model: 'big', messages: [{ role: 'system', content: 'Be brief.' }, prompts(1)[0]?.[0]], temperature: 0 },
  })
})

test('no more questions are open than are allowed, and answers that are there are not asked for', async () => {
  let [open, most] = [0, 0]
  const { teacher, asked } = await serve((_, response) => {
    open += 1
    most = Math.max(most, open)
    setImmediate(() => {
      open -= 1
      answer(response, 'a')
    })
  })
  const has = (prompt: number, sample: number) => prompt < 4 && sample === 0
  const lessons = await askTeacher(prompts(12), teacher, { samples: 2, concurrency: 3, has })
  expect(lessons).toHaveLength(20)
  expect(asked).toHaveLength(20)
  expect(most).toBeLessThanOrEqual(3)
  expect(lessons.filter(({ prompt }) => prompt < 4).map(({ sample }) => sample)).toEqual([1, 1, 1, 1])
})

test('a refusal ends the run at once, in words that say what to do', async () => {
  const { teacher, asked } = await serve((_, response) => refuse(response, 401, 'Incorrect API key provided'))
  await expect(askTeacher(prompts(40), teacher, { concurrency: 1 })).rejects.toMatchObject({
    code: 'teacher_refused',
    message: expect.stringMatching(
      /^the teacher big at http:\/\/127\.0\.0\.1:\d+\/v1 refuses: Incorrect API key provided$/,
    ),
    hint: "is its key right, and allowed to use this model? It is not this service's key",
  })
  expect(asked).toHaveLength(1)
})

test('a prompt that is refused is left out and told of, also where it is the first or the only one that is left', async () => {
  const { teacher, asked } = await serve(({ messages }, response) =>
    messages[0]?.content === 'q0' ? refuse(response, 400, 'too long') : answer(response, 'a'),
  )
  const failures: number[] = []
  const onFailure = ({ prompt }: { readonly prompt: number }) => failures.push(prompt)
  const lessons = await askTeacher(prompts(3), teacher, { concurrency: 1, onFailure })
  expect({ failures, came: lessons.map(({ prompt }) => prompt) }).toEqual({ failures: [0], came: [1, 2] })
  const has = (prompt: number) => prompt > 0
  expect(await askTeacher(prompts(3), teacher, { has, onFailure })).toEqual([])
  expect({ failures, asked: asked.length }).toEqual({ failures: [0, 0], asked: 4 })
  await expect(askTeacher(prompts(1), teacher)).rejects.toMatchObject({ code: 'teacher_refused' })
})

test('where nothing is answered, refusals end the run before all prompts were asked', async () => {
  const { teacher, asked } = await serve((_, response) => refuse(response, 422, 'temperature is not supported'))
  await expect(askTeacher(prompts(40), teacher, { concurrency: 1 })).rejects.toMatchObject({
    code: 'teacher_refused',
    hint: 'a smaller limit of tokens, or no temperature, may be what it wants',
  })
  expect(asked).toHaveLength(8)
})

test('an answer that cannot be kept ends the run', async () => {
  const { teacher, asked } = await serve((_, response) => answer(response, 'a'))
  const onLesson = () => Promise.reject(new AppError('unavailable', 'disk_full', 'the disk is full'))
  await expect(askTeacher(prompts(9), teacher, { concurrency: 1, onLesson })).rejects.toMatchObject({
    code: 'disk_full',
  })
  expect(asked).toHaveLength(1)
})

test('the system message of the teacher stands before that of a prompt, in the same message', async () => {
  const { teacher, asked } = await serve((_, response) => answer(response, 'a'), { system: 'Be brief.' })
  const user = { role: 'user', content: 'q' }
  const part = { type: 'text', text: 'You are a clerk.' }
  const own = [
    [{ role: 'system', content: 'You are a clerk.' }, user],
    [{ role: 'system', content: [part] }, user],
  ]
  await askTeacher(own, teacher, { concurrency: 1 })
  expect(asked.map(({ body }) => body)).toMatchObject([
    { messages: [{ role: 'system', content: 'Be brief.\n\nYou are a clerk.' }, user] },
    { messages: [{ role: 'system', content: [{ type: 'text', text: 'Be brief.\n\n' }, part] }, user] },
  ])
})

test('an address without its version is said to be one', async () => {
  const { baseURL } = await serve((_, response) => refuse(response, 404, 'Not Found'))
  const bare = createTeacher({ baseURL: baseURL.replace('/v1', ''), apiKey: null, model: 'big' })
  await expect(askTeacher(prompts(1), bare)).rejects.toMatchObject({
    hint: expect.stringContaining(`such as ${baseURL}, `),
  })
})

test('an answer that fails is left out and told of; where none comes its reason is thrown', async () => {
  const { teacher } = await serve(({ messages }, response) =>
    answer(response, messages[0]?.content === 'q1' ? null : 'a'),
  )
  const failures: number[] = []
  const lessons = await askTeacher(prompts(3), teacher, { onFailure: ({ prompt }) => failures.push(prompt) })
  expect({ failures, came: lessons.map(({ prompt }) => prompt) }).toEqual({ failures: [1], came: [0, 2] })
  await expect(askTeacher(prompts(2).slice(1), teacher)).rejects.toMatchObject({ code: 'teacher_answer_empty' })
})

test('an abort ends the questions', async () => {
  const stop = new AbortController()
  const { teacher } = await serve(() => stop.abort(new Error('enough')))
  await expect(askTeacher(prompts(3), teacher, { signal: stop.signal })).rejects.toThrow('enough')
})
