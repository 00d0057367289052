/** A server of the OpenEnv kind: one session an episode, actions in every form, its capacity respected, its failures named. */
import { afterEach, expect, test } from 'vitest'
import { type EnvironmentOptions, openEnvironment } from '#plugins/environments/open.js'
import { gather } from '#plugins/rl-library/gather.js'
import { episodesOf } from './support/episodes.js'
import { type FakeOpenEnv, type Fault, FORM, startFakeOpenEnv } from './support/fake-openenv.js'
import { type Said, scriptedModel } from './support/scripted-model.js'

const running: FakeOpenEnv[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.close()
})

async function start(kind: 'text' | 'form' | 'tools', fault: Fault | null = null, most = 1) {
  const server = await startFakeOpenEnv(kind, fault, most)
  running.push(server)
  const open = (options: EnvironmentOptions = {}) =>
    openEnvironment(`openenv:${server.url}`, { stepTimeoutMs: 20_000, ...options })
  return { server, open }
}

const numberIn = (asked: string) => /\d/.exec(asked)?.[0] ?? ''
const says = (form: (number: string) => Said) => scriptedModel((asked) => form(numberIn(asked)))

test.each([
  ['text', (number: string): Said => number],
  ['form', (number: string): Said => JSON.stringify({ number: Number(number) })],
] as const)('an answer becomes an action as %s, and rewards add up', async (kind, form) => {
  const { open } = await start(kind)
  const source = await open()
  const { episodes, description } = await episodesOf(source, says(form))
  expect(description).toMatchObject({ name: 'openenv:Numbers', version: '2.0', tasks: null, tools: [] })
  const [task] = await source.tasks('train', 0, 1)
  if (task === undefined) throw new Error('no task')
  const played = await episodes.play(task, { group: 'g', index: 0 })
  expect(played.reward).toBe(2)
  expect(played.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant'])
  expect(played.metrics).toMatchObject({ 'env/turns': 2, 'env/tool_errors': 0, is_cut_off: false })
})

test('a schema of several fields is what the answer is held to', async () => {
  const { open } = await start('form')
  const source = await open()
  let body: unknown
  const model = says((number) => JSON.stringify({ number: Number(number) }))
  const asking = {
    ...model,
    trajectory: (...given: Parameters<typeof model.trajectory>) => {
      const trajectory = model.trajectory(...given)
      const ask = trajectory.ask.bind(trajectory)
      trajectory.ask = async (options) => {
        body = options?.body
        return await ask(options)
      }
      return trajectory
    },
  }
  const { episodes } = await episodesOf(source, asking)
  const [task] = await source.tasks('eval', 0, 1)
  if (task === undefined) throw new Error('no task')
  await episodes.play(task, { group: 'g', index: 0 })
  const { metadata: _, ...shown } = FORM.properties
  expect(body).toEqual({
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'action', schema: { ...FORM, properties: shown }, strict: true },
    },
  })
})

test('tools are listed and called in the session', async () => {
  const { open } = await start('tools')
  const source = await open()
  const model = scriptedModel((asked, turn) =>
    turn < 2 ? [{ name: 'guess', arguments: { number: asked === 'yes' ? 1 : Number(numberIn(asked)) } }] : 'done',
  )
  const { episodes, description } = await episodesOf(source, model)
  expect(description.tools).toMatchObject([{ function: { name: 'guess' } }])
  const task = (await source.tasks('train', 0, 50)).find(({ seed }) => seed % 3 === 1)
  if (task === undefined) throw new Error('no task')
  expect((await episodes.play(task, { group: 'g', index: 0 })).reward).toBe(2)
})

test('a server that plays one session at a time is asked for one at a time', async () => {
  const { server, open } = await start('text')
  const source = await open()
  const { episodes } = await episodesOf(
    source,
    says((number) => number),
  )
  const groups = await gather(episodes.plans(await source.tasks('train', 0, 5), 4, 'step 1'), { concurrency: 8 })
  expect(groups.flatMap(({ exceptions }) => exceptions)).toEqual([])
  expect(groups.flatMap(({ rewards }) => rewards)).toEqual(Array.from({ length: 20 }, () => 2))
  expect(server.seen).toEqual({ mostOpen: 1, resets: 20 })
  expect(source.mostAtOnce?.()).toBe(1)
})

test('an action that is refused is told to the model, and the episode goes on', async () => {
  const { open } = await start('text', 'refuse')
  const source = await open({ maxTurns: 2 })
  const { episodes } = await episodesOf(
    source,
    says((number) => number),
  )
  const [task] = await source.tasks('train', 0, 1)
  if (task === undefined) throw new Error('no task')
  const played = await episodes.play(task, { group: 'g', index: 0 })
  expect(played.metrics).toMatchObject({ 'env/turns': 2, 'env/tool_errors': 2, is_cut_off: true })
  expect(played.messages[2]?.content).toMatch(/^error: it says VALIDATION_ERROR: .*a number is wanted/)
})

test.each([
  ['hang', 'env_timeout', /step: no answer after 0.5 s/],
  ['drop', 'env_crashed', /the server closed the session/],
  ['garbage', 'env_protocol', /a message is no JSON object: "\[1"/],
  ['factory', 'env_crashed', /FACTORY_ERROR: it says FACTORY_ERROR/],
  ['text_reward', 'reward_invalid', /a reward must be a number, got "much"/],
] as const)('a server that would %s is a failure of the kind %s', async (fault, kind, message) => {
  const { open } = await start('text', fault)
  const source = await open(fault === 'hang' ? { stepTimeoutMs: 500 } : {})
  const { episodes } = await episodesOf(
    source,
    says((number) => number),
  )
  const [task] = await source.tasks('train', 0, 1)
  if (task === undefined) throw new Error('no task')
  const played = episodes.play(task, { group: 'g', index: 0 })
  await expect(played).rejects.toMatchObject({ kind, message: expect.stringMatching(message) })
})

test('a server that is not there is said with what to do', async () => {
  const { server, open } = await start('text')
  await server.close()
  running.splice(0)
  await expect((await open()).describe()).rejects.toMatchObject({
    kind: 'env_crashed',
    isStart: true,
    hint: expect.stringContaining('start the server'),
  })
  await expect(openEnvironment('openenv:ftp://x')).rejects.toMatchObject({ code: 'unknown_environment' })
  await expect(openEnvironment(`openenv:${server.url}`, { isolate: true })).rejects.toMatchObject({
    code: 'option_without_effect',
  })
})
