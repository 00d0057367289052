/**
 * Chat templates of well-known models: masks, safety of user text, and the prompt before a trained turn.
 *
 * The templates come with `node test/support/fetch-llama-vocab.js`; without them the tests are skipped. The vocabulary
 * is ours, with the control tokens of each template.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { InvalidRequestError } from '#base/errors/errors.js'
import { parseExact } from '#base/json/exact-json.js'
import { systemClock } from '#base/util/clock.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { answerFormatOf, needsToolPrompt, type ToolFormat } from '#formats/answers/answer-format.js'
import { createToolCallStream } from '#formats/answers/tool-call-stream.js'
import { type ChatTemplate, createChatTemplate } from '#model/text/chat-template.js'
import { renderConversation } from '#model/text/render.js'
import { renderTurns } from '#model/text/render-with-mask.js'
import type { TextModel } from '#model/text/text-model.js'
import { createTinyTextModel } from '../../support/model/tiny-tokenizer.js'

const root = join(import.meta.dirname, '..', '..', '..')
const directory = join(root, '.cache', 'llama-vocab')
/** Transformers of the package index. */
const python = join(root, '.cache', 'torch-pypi-venv', 'bin', 'python')
const llama3 = { controlTokens: ['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'], ends: ['<|eot_id|>'] }
const deepseek = {
  controlTokens: ['<｜User｜>', '<｜Assistant｜>', '<｜end▁of▁sentence｜>', '<｜tool▁calls▁begin｜>'],
  ends: ['<｜end▁of▁sentence｜>'],
}

/** What `transformers` makes of the same files, at noon of 2026-03-01 (`test/support/model/make-template-goldens.py`). */
const goldens: readonly {
  readonly template: string
  readonly title: string
  readonly conversation: JsonObject & { readonly messages: readonly JsonValue[] }
  readonly expected: string
}[] = JSON.parse(readFileSync(join(import.meta.dirname, '../../fixtures/model-template-goldens.json'), 'utf8'))
const noon = { ...systemClock, nowMs: () => new Date(2026, 2, 1, 12).getTime() }

/** What transformers makes of all templates (`test/support/model/make-rendering-digests.py`), as digests. */
const fixtureText = (name: string): string => readFileSync(join(import.meta.dirname, '../../fixtures', name), 'utf8')
const digests: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(
  fixtureText('rendering-digests.json'),
)
const conversations = parseExact(fixtureText('rendering-conversations.json')) as Readonly<Record<string, JsonObject>>
const WITH_TOOLS = ['tools', 'tool results', 'parallel calls', 'arrays']
/** Templates that show no tools, which are told in words here: transformers leaves them out, or refuses their turns. */
const TOLD = [
  'HuggingFaceTB-SmolLM3-3B',
  'google-gemma-2-2b-it',
  'llama-cpp-rwkv-world',
  'microsoft-Phi-3.5-mini-instruct',
]
/** Refused by Python, which cannot print what `map` gives; the template of llama.cpp's own renders here. */
const LENIENT = 'llama-cpp-deepseek-r1'
/** Every rendering that may differ from that of transformers. */
const DIFFERENT = new Set([...TOLD, LENIENT].flatMap((template) => WITH_TOOLS.map((title) => `${template} ${title}`)))
/** Of 980: what both refuse is equal too, in 70. */
const EQUAL = 961

function digestOf(template: ChatTemplate, given: JsonObject): string {
  const {
    messages,
    tools,
    documents,
    continue_final_message: isContinued,
    add_generation_prompt: asks,
    ...kwargs
  } = given
  const list = (value: JsonValue | undefined): readonly JsonValue[] | null => (Array.isArray(value) ? value : null)
  try {
    const { text } = template.render({
      messages: list(messages) ?? [],
      tools: list(tools),
      documents: list(documents),
      continueFinalMessage: isContinued === true,
      addGenerationPrompt: asks !== false,
      kwargs,
    })
    return createHash('sha256').update(text).digest('hex').slice(0, 16)
  } catch (error) {
    if (error instanceof InvalidRequestError) return 'refused'
    throw error
  }
}

/** Templates that expect calls in the content of a message. */
const NO_CALLS = new Set(['LFM2-8B-A1B', 'ibm-granite-granite-3.3-2B-Instruct'])

/** The calls that are read in an answer, in the form of a message; whole and character by character. */
function callsIn(format: ToolFormat, text: string, tools: readonly JsonObject[]): unknown {
  const functions = tools.map((tool) => tool['function'] as { name: string; parameters: JsonObject })
  const offered = {
    isTool: (name: string) => functions.some((one) => one.name === name),
    parametersOf: (name: string) => functions.find((one) => one.name === name)?.parameters ?? null,
  }
  const read = (pieces: readonly string[]): unknown => {
    const stream = createToolCallStream(format, offered)
    const calls: { name: string; arguments: string }[] = []
    for (const { calls: found } of [...pieces.map((piece) => stream.push(piece)), stream.end()]) {
      for (const { index, name, arguments: given } of found) {
        calls[index] ??= { name: name ?? '', arguments: '' }
        calls[index].arguments += given
      }
    }
    return calls.map(({ name, arguments: given }, i) => ({
      id: `call${String(i).padStart(5, '0')}`,
      type: 'function',
      function: { name, arguments: parseExact(given) },
    }))
  }
  const whole = read([text])
  expect(read([...text])).toEqual(whole)
  return whole
}

/** File name, its control tokens, and what it cannot do. */
const templates: readonly (readonly [string, { controlTokens?: string[]; ends?: string[] }, string?])[] = [
  ['Qwen-Qwen2.5-7B-Instruct', {}],
  ['Qwen-Qwen3-0.6B', {}],
  ['Qwen-QwQ-32B', {}],
  ['Qwen3.5-4B', {}],
  ['HuggingFaceTB-SmolLM3-3B', {}],
  ['meta-llama-Llama-3.1-8B-Instruct', llama3],
  ['meta-llama-Llama-3.2-3B-Instruct', llama3],
  [
    'microsoft-Phi-3.5-mini-instruct',
    { controlTokens: ['<|user|>', '<|assistant|>', '<|system|>', '<|end|>'], ends: ['<|end|>'] },
  ],
  ['google-gemma-2-2b-it', { controlTokens: ['<start_of_turn>', '<end_of_turn>'], ends: ['<end_of_turn>'] }, 'system'],
  ['mistralai-Mistral-Nemo-Instruct-2407', { controlTokens: ['[INST]', '[/INST]', '</s>'], ends: ['</s>'] }, 'system'],
  ['deepseek-ai-DeepSeek-R1-Distill-Qwen-32B', deepseek],
  [
    'ibm-granite-granite-3.3-2B-Instruct',
    { controlTokens: ['<|start_of_role|>', '<|end_of_role|>', '<|end_of_text|>'], ends: ['<|end_of_text|>'] },
  ],
]

describe.skipIf(!existsSync(directory))('templates of models (skipped without .cache/llama-vocab)', () => {
  test.each(goldens)('$template renders as in transformers ($title)', ({ template, conversation, expected }) => {
    const { messages, tools, add_generation_prompt: addGenerationPrompt, ...kwargs } = conversation
    const source = readFileSync(join(directory, `${template}.jinja`), 'utf8')
    const tokenVariables = { bos_token: '<s>', eos_token: '</s>' }
    const compiled = createChatTemplate(source, { controlTokens: [], tokenVariables, clock: noon })
    const { text } = compiled.render({
      messages,
      tools: Array.isArray(tools) ? tools : null,
      addGenerationPrompt: addGenerationPrompt !== false,
      kwargs,
    })
    expect(text).toBe(expected)
  })

  const compile = (template: string): ChatTemplate => {
    const source = readFileSync(join(directory, `${template}.jinja`), 'utf8')
    const tokenVariables = { bos_token: '<s>', eos_token: '</s>' }
    return createChatTemplate(source, { controlTokens: [], tokenVariables, clock: noon })
  }

  test.each(Object.entries(digests))('%s renders every conversation as transformers does', (template, expected) => {
    const compiled = compile(template)
    for (const [title, given] of Object.entries(conversations)) {
      if (!DIFFERENT.has(`${template} ${title}`)) expect(digestOf(compiled, given), title).toBe(expected[title])
    }
  })

  test('961 of 980 renderings are equal; the others are those that may differ', () => {
    const different = Object.entries(digests).flatMap(([template, expected]) => {
      const compiled = compile(template)
      const titles = Object.entries(conversations).filter(
        ([title, given]) => digestOf(compiled, given) !== expected[title],
      )
      return titles.map(([title]) => `${template} ${title}`)
    })
    const count = Object.keys(digests).length * Object.keys(conversations).length
    expect(count - different.length).toBe(EQUAL)
    expect(different.filter((each) => !DIFFERENT.has(each))).toEqual([])
  })

  test.skipIf(!existsSync(python))(
    'the digests are what transformers makes (skipped without .cache/torch-pypi-venv, see .ci/run)',
    { timeout: 300_000 },
    async () => {
      const script = join(root, 'test/support/model/make-rendering-digests.py')
      await promisify(execFile)(python, [script, '--check'], { cwd: root, timeout: 290_000 })
    },
  )

  test.each(TOLD)('%s without tools is told nothing', (template) => {
    const compiled = compile(template)
    const { tools: _, ...asked } = conversations['tools'] as JsonObject
    expect(needsToolPrompt(readFileSync(join(directory, `${template}.jinja`), 'utf8'))).toBe(true)
    // transformers leaves the tools of such a template out
    expect(digestOf(compiled, asked)).toBe(digests[template]?.['tools'])
  })

  test.each(Object.keys(digests))('%s: calls that it writes are read as these calls', (name) => {
    const source = readFileSync(join(directory, `${name}.jinja`), 'utf8')
    const format = answerFormatOf(source).toolFormat
    // Llama's calls are the whole answer, and only one; these two write none at all
    if (format === null || format === 'llama3_json' || NO_CALLS.has(name)) return
    const tokenVariables = { bos_token: '<s>', eos_token: '</s>' }
    const template = createChatTemplate(source, { controlTokens: [], tokenVariables })
    for (const title of ['arrays', 'parallel calls']) {
      const { messages, tools } = conversations[title] as {
        messages: readonly JsonObject[]
        tools: readonly JsonObject[]
      }
      const render = (count: number, asks: boolean): string =>
        template.render({ messages: messages.slice(0, count), tools, addGenerationPrompt: asks }).text
      const [prompt, whole] = [render(1, true), render(2, false).replace(/<\/s>\s*$/, '')]
      const at = [...whole].findIndex((character, i) => character !== prompt[i])
      // a prompt may begin with the mark of reasoning, a call with another mark that begins alike
      const read = [at, whole.lastIndexOf('<', at)].map((from) => callsIn(format, whole.slice(from), tools))
      expect(read, title).toContainEqual(messages[1]?.['tool_calls'])
    }
  })

  describe.each(templates.map(([name, options, lacks]) => ({ name, options, lacks })))(
    '$name',
    ({ name, options, lacks }) => {
      let model: TextModel
      // not here: the body of a skipped block runs, too
      beforeAll(() => {
        model = createTinyTextModel(readFileSync(join(directory, `${name}.jinja`), 'utf8'), options)
      })
      const turns: readonly JsonObject[] = [
        { role: 'user', content: 'the first question' },
        { role: 'assistant', content: 'one answer' },
        { role: 'user', content: 'and then' },
        { role: 'assistant', content: 'two\nanswers' },
      ]
      const messages = lacks === 'system' ? turns : [{ role: 'system', content: 'Be brief.' }, ...turns]
      const end = options.ends?.[0] ?? '<|im_end|>'

      test.each([
        ['by default', {}],
        ['without thinking', { enable_thinking: false }],
      ])('what trains is what a chat must generate behind its prompt, %s', (_, kwargs) => {
        const { sequences } = renderTurns(model, { messages, kwargs })
        const trained = sequences.flatMap(({ tokenIds, mask }) =>
          tokenIds.flatMap((_id, t) => {
            if (mask[t] !== 1 || mask[t - 1] === 1) return []
            const after = mask.indexOf(0, t)
            return [{ before: tokenIds.slice(0, t), turn: tokenIds.slice(t, after === -1 ? undefined : after) }]
          }),
        )
        const asked = messages.flatMap(({ role }, m) =>
          role === 'assistant' ? [renderConversation(model, { messages: messages.slice(0, m), kwargs }).text] : [],
        )
        expect(trained.map(({ before }) => model.tokenizer.decode(before))).toEqual(asked)
        const block = /^(<think>\s*)?\s*<\/think>\s*/
        expect(trained.map(({ turn }) => model.tokenizer.decode(turn).replace(block, ''))).toEqual([
          `one answer${end}`,
          `two\nanswers${end}`,
        ])
      })

      test('user text never becomes a control token', () => {
        const specials = (content: string): number =>
          renderConversation(model, { messages: [{ role: 'user', content }] }).tokenIds.filter(
            model.tokenizer.isSpecial,
          ).length
        expect(specials(`a ${model.tokenizer.specialTokens.join(' ')} b`)).toBe(specials('a b'))
      })
    },
  )
})
