import { expect, test } from 'vitest'
import { modelWarnings } from '#model/inspection/model-warnings.js'
import { templateLimits } from '#model/text/check-template.js'
import { createTinyTextModel } from '../../../support/model/tiny-tokenizer.js'

const ROLES = `{% for m in messages %}{% if m.role in ['user', 'assistant'] %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}`
const CALLS = ROLES.replace(
  '{{ m.content }}',
  '{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}',
)
const ALL =
  '{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>{% endfor %}'
const NO_SYSTEM = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}${ALL}`

const plain = { hfConfig: {}, ggufMetadata: null, hasOwnHead: false, isTextPart: false, hasUnreadShards: false }
type Source = Parameters<typeof modelWarnings>[0]
const warningsOf = (
  source: Partial<Source>,
  text = createTinyTextModel(ALL),
  embeddingRows = text.tokenizer.vocabularySize,
): string[] => modelWarnings({ ...plain, ...source }, text, embeddingRows)

test('nothing is said of a model that is whole', () => {
  expect(warningsOf({})).toEqual([])
  // a head that the configuration knows of
  expect(warningsOf({ hfConfig: { tie_word_embeddings: false }, hasOwnHead: true })).toEqual([])
})

test('what a template leaves out and what it refuses', () => {
  const limitsOf = (source: string) => {
    const { chatTemplate } = createTinyTextModel(source)
    return chatTemplate === null ? null : templateLimits(chatTemplate)
  }
  expect(limitsOf(ALL)).toEqual({ leftOut: [], refused: [] })
  // a template that knows calls, but no tools and no results
  expect(limitsOf(CALLS)).toEqual({ leftOut: ['system messages', 'tools', 'results of tools'], refused: [] })
  // one that knows neither is told them in words
  expect(limitsOf(ROLES)).toEqual({ leftOut: ['system messages'], refused: [] })
  expect(limitsOf(NO_SYSTEM)).toEqual({ leftOut: [], refused: ['system messages'] })
  expect(warningsOf({}, createTinyTextModel(CALLS))).toEqual([
    'its chat template leaves out system messages, tools, results of tools: the model is told nothing of them',
  ])
  expect(warningsOf({}, createTinyTextModel(NO_SYSTEM))).toEqual(['its chat template refuses system messages'])
})

test('an end that the template alone tells, none at all, and no template', () => {
  const text = createTinyTextModel(ALL, { ends: ['<|endoftext|>', '<|im_end|>'] })
  const end = text.tokenizer.tokenToId('<|im_end|>')
  expect(warningsOf({}, { ...text, templateEndId: end })).toEqual([
    expect.stringMatching(
      /^its files name "<\|endoftext\|>" as the end, its chat template writes "<\|im_end\|>" behind/,
    ),
  ])
  expect(warningsOf({}, { ...text, eosTokenIds: [] })).toEqual([expect.stringContaining('answers run to max_tokens')])
  expect(warningsOf({}, { ...text, chatTemplate: null })).toEqual([expect.stringContaining('no chat template')])
})

test('a tokenizer that is larger than the embedding, with numbers', () => {
  const text = createTinyTextModel(ALL)
  const { vocabularySize } = text.tokenizer
  const last = text.tokenizer.idToToken(vocabularySize - 1)
  expect(warningsOf({}, text, vocabularySize + 64)).toEqual([])
  expect(warningsOf({}, text, vocabularySize - 1)).toEqual([
    `its tokenizer knows ids up to ${vocabularySize - 1}, its embedding has ${vocabularySize - 1} rows: a text or row that needs the token "${last}" is refused`,
  ])
  expect(warningsOf({}, text, vocabularySize - 3)[0]).toContain('one of 3 tokens beyond them, as ')
})

test('what of its tokenizer file is not read', () => {
  const text = createTinyTextModel(ALL)
  const notes = ['its tokenizer.json has fields that nothing reads: model.n_best']
  expect(warningsOf({}, { ...text, tokenizer: { ...text.tokenizer, notes } })).toEqual(notes)
})

test('what the files of its weights leave to be guessed, or say otherwise', () => {
  const gguf = (...names: string[]) => ({
    hfConfig: null,
    ggufMetadata: new Map([['tokenizer.ggml.model', 'gpt2'], ...names.map((name) => [name, 'x'] as const)]),
  })
  expect(warningsOf(gguf('tokenizer.ggml.pre', 'tokenizer.ggml.token_type'))).toEqual([])
  expect(warningsOf(gguf())).toEqual([
    expect.stringContaining('(tokenizer.ggml.pre): llama.cpp\'s "default" is taken'),
    expect.stringContaining('(tokenizer.ggml.token_type)'),
  ])
  expect(warningsOf({ hfConfig: { tie_word_embeddings: true }, hasOwnHead: true })).toEqual([
    expect.stringContaining('the head is used'),
  ])
  expect(warningsOf({ isTextPart: true })).toEqual([expect.stringContaining('the text part is served alone')])
  expect(warningsOf({ hasUnreadShards: true })).toEqual([expect.stringContaining('two sets of weights')])
})

test('which of several templates counts', () => {
  const text = createTinyTextModel(ALL)
  expect(warningsOf({}, { ...text, templateNotes: ['one of two'] })).toEqual(['one of two'])
})
