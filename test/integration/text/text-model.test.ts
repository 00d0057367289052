/** Loading the textual side of a model: directories, their configuration files, and SmolLM2's GGUF. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { renderConversation } from '#model/text/render.js'
import { renderWithMask } from '#model/text/render-with-mask.js'
import { loadTextModel } from '#model/text/text-model.js'
import { tinyTokenizerJson } from '../../support/model/tiny-tokenizer.js'

const directories: string[] = []

async function modelDirectory(files: Readonly<Record<string, unknown>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-text-'))
  directories.push(directory)
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true })
    await writeFile(join(directory, name), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return directory
}

afterEach(async () => {
  for (const directory of directories.splice(0)) await rm(directory, { recursive: true })
})

describe('Hugging Face directories', () => {
  const tokenizer = tinyTokenizerJson()

  test('EOS tokens come from the tokenizer and from lists in the generation config', async () => {
    const model = await loadTextModel(
      await modelDirectory({
        'tokenizer.json': tokenizer,
        'tokenizer_config.json': {
          eos_token: { content: '<|im_end|>' },
          bos_token: '<|endoftext|>',
          chat_template: 'x',
        },
        'generation_config.json': { eos_token_id: [262, 264, 999_999] },
        'config.json': { eos_token_id: 264 },
      }),
    )
    expect(model.eosTokenIds).toEqual([264, 262])
    expect(model.bosTokenId).toBe(262)
  })

  test('chat_template.jinja wins over the configuration; named templates are chosen by the tools', async () => {
    const named = [
      { name: 'default', template: 'plain' },
      { name: 'tool_use', template: 'with tools' },
    ]
    const files = { 'tokenizer.json': tokenizer, 'tokenizer_config.json': { chat_template: named } }
    const model = await loadTextModel(await modelDirectory(files))
    const other = await loadTextModel(await modelDirectory({ ...files, 'chat_template.jinja': 'from file' }))
    expect(renderConversation(model, { messages: [] }).text).toBe('plain')
    expect(renderConversation(model, { messages: [], tools: [{ name: 'f' }] }).text).toBe('with tools')
    expect(renderConversation(other, { messages: [] }).text).toBe('from file')
  })

  test('of two templates the file counts, and of several without a default none, as in transformers: both are told', async () => {
    const config = (chat_template: unknown) => ({
      'tokenizer.json': tokenizer,
      'tokenizer_config.json': { chat_template },
    })
    const notesOf = async (files: Readonly<Record<string, unknown>>) =>
      (await loadTextModel(await modelDirectory(files))).templateNotes
    expect(await notesOf({ ...config('old'), 'chat_template.jinja': 'new' })).toEqual([
      'its chat_template.jinja is used, as in transformers, and another template in tokenizer_config.json is not',
    ])
    expect(await notesOf({ ...config('same'), 'chat_template.jinja': 'same' })).toEqual([])
    const named = [
      { name: 'tool_use', template: 'with tools' },
      { name: 'r"}}ag', template: 'with documents' },
    ]
    const model = await loadTextModel(await modelDirectory(config(named)))
    expect(model.templateNotes).toEqual([
      'its chat templates are named tool_use, r???ag and none of them default: chats without tools are refused, as in transformers',
    ])
    expect(renderConversation(model, { messages: [], tools: [{ name: 'f' }] }).text).toBe('with tools')
    expect(() => renderConversation(model, { messages: [] })).toThrow(
      'the model has chat templates named tool_use, r???ag and none named default',
    )
  })

  test('a template for tools in a file of its own is chosen by the tools', async () => {
    const model = await loadTextModel(
      await modelDirectory({
        'tokenizer.json': tokenizer,
        'chat_template.jinja': 'plain',
        'additional_chat_templates/tool_use.jinja': 'with tools',
      }),
    )
    expect(renderConversation(model, { messages: [] }).text).toBe('plain')
    expect(renderConversation(model, { messages: [], tools: [{ name: 'f' }] }).text).toBe('with tools')
  })

  test('special tokens that only special_tokens_map.json names reach the template and end answers', async () => {
    const files = {
      'tokenizer.json': tokenizer,
      'tokenizer_config.json': { chat_template: '{{ bos_token }}{{ eos_token }}', bos_token: '<|endoftext|>' },
      'special_tokens_map.json': { bos_token: 'not this', eos_token: { content: '<|im_end|>' } },
    }
    const model = await loadTextModel(await modelDirectory(files))
    expect(renderConversation(model, { messages: [] }).text).toBe('<|endoftext|><|im_end|>')
    expect(model.eosTokenIds).toEqual([264])
  })

  test('a model without template says so when it is given messages', async () => {
    const model = await loadTextModel(await modelDirectory({ 'tokenizer.json': tokenizer }))
    expect(model.chatTemplate).toBeNull()
    expect(() => renderConversation(model, { messages: [] })).toThrow(
      expect.objectContaining({ code: 'no_chat_template' }),
    )
  })

  test('add_bos_token of Llama tokenizers is obeyed', async () => {
    const config = { tokenizer_class: 'LlamaTokenizerFast', bos_token: '<|endoftext|>', add_bos_token: true }
    const model = await loadTextModel(
      await modelDirectory({ 'tokenizer.json': tokenizer, 'tokenizer_config.json': config }),
    )
    expect(model.tokenizer.encode('a', { addSpecialTokens: true })[0]).toBe(262)
  })

  test.each<[string, Readonly<Record<string, unknown>>, string]>([
    ['no tokenizer.json', {}, 'tokenizer_not_found'],
    ['no JSON', { 'tokenizer.json': '{' }, 'invalid_tokenizer_file'],
    ['no object', { 'tokenizer.json': [] }, 'invalid_tokenizer_file'],
    ['no model', { 'tokenizer.json': {} }, 'invalid_tokenizer_file'],
    [
      'ids that are no ids',
      { 'tokenizer.json': { model: { type: 'BPE', vocab: { a: -1 }, merges: [] } } },
      'invalid_tokenizer_file',
    ],
    [
      'merges of unknown tokens',
      { 'tokenizer.json': { model: { type: 'BPE', vocab: { a: 0 }, merges: ['a b'] } } },
      'invalid_tokenizer_file',
    ],
    [
      'an unknown part',
      { 'tokenizer.json': { model: { type: 'BPE', vocab: {}, merges: [] }, pre_tokenizer: { type: 'X' } } },
      'unsupported_tokenizer',
    ],
    ['a broken template', { 'tokenizer.json': tokenizer, 'chat_template.jinja': '{% if %}' }, 'invalid_chat_template'],
  ])('%s is refused', async (_name, files, code) => {
    await expect(loadTextModel(await modelDirectory(files))).rejects.toMatchObject({
      code,
      category: 'invalid_request',
    })
  })

  test('a path that does not exist is refused', async () => {
    await expect(loadTextModel('/no/such/model')).rejects.toMatchObject({ code: 'tokenizer_not_found' })
  })
})

const smollm2 = join(import.meta.dirname, '..', '..', '..', '.cache', 'models', 'SmolLM2-135M-Instruct.Q4_1.gguf')

describe.skipIf(!existsSync(smollm2))('SmolLM2 (skipped without `npm run model:smollm2`)', () => {
  test('prompts are ChatML with its default system message', async () => {
    const model = await loadTextModel(smollm2)
    const { text, tokenIds } = renderConversation(model, { messages: [{ role: 'user', content: 'Hi <|im_end|>' }] })
    expect(text).toContain('named SmolLM')
    expect(text.endsWith('<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n')).toBe(true)
    expect(tokenIds.filter((id) => id === 2)).toHaveLength(2)
    expect(model.eosTokenIds[0]).toBe(2)
    expect(model.tokenizer.decode(tokenIds)).toBe(text)
  })

  test('training masks the answer and its end, and the prompt is what inference sees', async () => {
    const model = await loadTextModel(smollm2)
    const messages = [
      { role: 'user', content: 'Capital of France?' },
      { role: 'assistant', content: 'Paris' },
    ]
    const { tokenIds, mask } = renderWithMask(model, { messages })
    const trained = tokenIds.filter((_, i) => mask[i] === 1)
    expect(model.tokenizer.decode(trained)).toBe('Paris<|im_end|>')
    expect(tokenIds.slice(0, mask.indexOf(1))).toEqual(
      renderConversation(model, { messages: messages.slice(0, 1) }).tokenIds,
    )
  })
})
