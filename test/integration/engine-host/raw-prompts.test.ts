/**
 * Prompts that no template sees, their log-probabilities, and text work without generation.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createHost, type Host } from '#inference/host/host.js'
import type { GenerateCommand, PromptPosition, RawInput, TextResult, TextTask } from '#inference/host/protocol.js'
import { createTextDesk } from '#inference/host/text-desk.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { loadTextModel } from '#model/text/text-model.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { ask, EventLog, SAMPLING } from './host-harness.js'

let directory: string
let sourcePath: string
let host: Host
const log = new EventLog()

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'raw-prompts-'))
  sourcePath = await ensureTinyRandomModel(join(directory, 'model'))
  host = createHost({ runtime: createOrtRuntime(), clock: systemClock, send: log.push, exit: () => undefined })
  await host.handle({
    type: 'load',
    baseModel: 'tiny',
    sourcePath,
    preparedDir: join(directory, 'prepared'),
    precision: 'f32',
    threads: 1,
    maxContextLength: 200,
    maxConcurrentSequences: 4,
    kvCacheBytes: null,
    speculation: 'off',
  })
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

type Prompt = RawInput['prompt']

async function complete(
  id: string,
  prompt: Prompt,
  options: { sampling?: Partial<GenerateCommand['sampling']>; echoesPrompt?: boolean } = {},
) {
  const command: GenerateCommand = {
    type: 'generate',
    id,
    prompt,
    truncatePromptTokens: null,
    sampling: { ...SAMPLING, ...options.sampling },
    grammar: null,
    adapter: null,
    cacheSalt: null,
    echoesPrompt: options.echoesPrompt ?? false,
  }
  await host.handle(command)
  const end = await log.ended(id)
  const events = log.events.filter((event) => 'id' in event && event.id === id)
  const positions = events.flatMap((event) => (event.type === 'prompt' ? event.positions : []))
  const started = events.find((event) => event.type === 'started')
  return { ...log.answer(id), positions, started, end }
}

async function textOf(id: string, task: TextTask): Promise<TextResult> {
  await host.handle({ type: 'text', id, task })
  const event = await log.when((each) => each.type === 'text' && each.id === id)
  if (event.type !== 'text') throw new Error('unreachable')
  return event.result
}

const TEXT = 'Once upon a time'

describe('raw prompts', () => {
  it('are the same as text and as its tokens', async () => {
    const { tokenIds } = await textOf('t1', {
      kind: 'tokenize',
      input: { prompt: { text: TEXT, addSpecialTokens: true } },
    })
    const asText = await complete('a1', { text: TEXT, addSpecialTokens: true }, { echoesPrompt: true })
    const asTokens = await complete('a2', { tokenIds }, { echoesPrompt: true })
    expect(asText.started).toMatchObject({ promptTokenIds: tokenIds, promptText: TEXT })
    expect(asTokens.started).toMatchObject({ promptTokenIds: tokenIds, promptText: TEXT })
    expect(asText.ids).toEqual(asTokens.ids)
    expect(asText.ids).toHaveLength(12)
  })

  it('know control tokens where they are spelled', async () => {
    const whole = await textOf('t2', {
      kind: 'tokenize',
      input: { prompt: { text: '<|im_end|>', addSpecialTokens: false } },
      hasTokenStrings: true,
    })
    expect(whole.tokenStrings).toEqual(['<|im_end|>'])
  })

  it('score what was sampled as sampling did', async () => {
    const { ids, logprobs, started } = await complete(
      's1',
      { text: TEXT, addSpecialTokens: true },
      {
        sampling: { temperature: 1, seed: 5n, ignoreEos: true, topLogprobs: 3 },
      },
    )
    const promptTokenIds = started?.type === 'started' ? started.promptTokenIds : []
    const scored = await complete(
      's2',
      { tokenIds: [...promptTokenIds, ...ids] },
      {
        sampling: { maxTokens: 0, promptLogprobs: 3 },
        echoesPrompt: true,
      },
    )
    expect(scored.positions).toHaveLength(promptTokenIds.length + ids.length)
    expect(scored.positions[0]).toMatchObject({ logprob: null, top: [] })
    const tail: readonly PromptPosition[] = scored.positions.slice(promptTokenIds.length)
    for (const [i, position] of tail.entries()) {
      expect(position.id).toBe(ids[i])
      // one pass over all tokens and one per token round differently
      expect(Math.abs((position.logprob ?? 0) - (logprobs[i]?.logprob ?? 1))).toBeLessThan(1e-4)
      expect(position.top.map(({ id }) => id)).toEqual(logprobs[i]?.top.map(({ id }) => id))
    }
    expect(scored).toMatchObject({ text: '', ids: [], finishReason: 'length' })
    expect(scored.end.type).toBe('finished')
  })

  it('of one token are reported too', async () => {
    const one = await complete('o1', { tokenIds: [65] }, { sampling: { maxTokens: 0, promptLogprobs: 0 } })
    expect(one.positions.map(({ id, logprob }) => [id, logprob])).toEqual([[65, null]])
  })

  it('are refused for tokens that the vocabulary lacks and for none at all', async () => {
    expect((await complete('r1', { tokenIds: [999_999] })).end).toMatchObject({
      type: 'failed',
      error: { category: 'invalid_request', param: 'prompt' },
    })
    expect((await complete('r2', { tokenIds: [] })).end).toMatchObject({ type: 'failed' })
  })
})

describe('text work', () => {
  const conversation = (count: number) => {
    const { messages, tools, template } = ask('x', 'hello') as Extract<GenerateCommand, { readonly messages: unknown }>
    return { messages: Array.from({ length: count }, () => messages).flat(), tools, template }
  }

  it('is the same in place and in the thread', async () => {
    const textModel = await loadTextModel(sourcePath)
    const here = createTextDesk(textModel, { sourcePath, smallText: Number.POSITIVE_INFINITY })
    const there = createTextDesk(textModel, { sourcePath, smallText: -1 })
    const input = conversation(40)
    expect(await there.prepare(input)).toMatchObject({ ...(await here.prepare(input)) })
    for (const task of [
      { kind: 'tokenize', input, hasTokenStrings: true },
      { kind: 'render', input },
      { kind: 'detokenize', tokenIds: [72, 105, 33] },
    ] as const) {
      expect(await there.run(task)).toEqual(await here.run(task))
    }
    const bad = { ...input, messages: [{ role: 'user', content: { no: 'text' } }] }
    const refusals = await Promise.allSettled([here, there].map(async (desk) => desk.prepare(bad)))
    expect(refusals.map((each) => (each.status === 'rejected' ? each.reason.code : null))).toEqual(
      Array(2).fill(refusals[0]?.status === 'rejected' ? refusals[0].reason.code : 'none'),
    )
  })

  it('of a template that a request brings ends by a timer outside of it, and takes nobody along', async () => {
    const textModel = await loadTextModel(sourcePath)
    const desk = createTextDesk(textModel, { sourcePath, smallText: -1, foreignMs: 100 })
    const { messages, tools, template } = conversation(40)
    const endless = '{% for i in range(100000) %}{% for j in range(100000) %}{% set x = i %}{% endfor %}{% endfor %}'
    const foreign = { messages, tools, template: { ...template, chatTemplate: endless } }
    const [late, whole] = await Promise.allSettled([desk.prepare(foreign), desk.prepare({ messages, tools, template })])
    expect(late).toMatchObject({
      reason: { code: 'chat_template_budget', message: 'chat template takes too long: more than 0.1 s' },
    })
    expect(whole.status).toBe('fulfilled')
  })

  it('of a long conversation ends in the words of a short one', async () => {
    const long: GenerateCommand = { ...ask('l1', 'x'), ...conversation(3000) }
    await host.handle(long)
    expect(await log.ended('l1')).toMatchObject({ type: 'failed', error: { code: 'context_length_exceeded' } })
  })
})
