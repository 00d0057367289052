/**
 * Tokenizer files that each say one thing that files may say, against what the reference implementation does with them: ids, text, and
 * tokens around it; or the file is refused by name. Made by `test/support/model/make-tokenizer-forms.py`.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { checkFields } from '#model/text/hf-fields.js'
import { createHuggingFaceTokenizer } from '#model/text/hf-tokenizer.js'
import { createStreamDecoder } from '#model/text/stream-decoder.js'

interface Form {
  readonly form: string
  readonly tokenizer: JsonObject
  readonly cases: readonly Case[]
}

interface Case {
  readonly text: string
  readonly ids: readonly number[]
  /** With the tokens around it, where there are any. */
  readonly whole?: readonly number[]
  readonly decoded: string
}

const forms = JSON.parse(
  readFileSync(new URL('../../../fixtures/tokenizer-forms.json', import.meta.url), 'utf8'),
) as readonly Form[]

/** What is refused, and what the refusal names. */
const REFUSED: Readonly<Record<string, string>> = {
  'word level, scripts': 'UnicodeScripts',
  'word piece, decoder': 'WordPiece',
  'bpe, suffix': 'end_of_word_suffix',
  'decoder that strips more': 'Strip',
}
/** Where a token spells another text than in the reference implementation (`hf-decoder.ts`). */
const SPELLED_OTHERWISE = [
  'byte level, added letter',
  'added, normalized, lower case',
  'added, normalized and special',
  'added, normalized, prepend',
  'added, normalized, single word',
]

const formOf = (name: string): JsonObject => {
  const found = forms.find(({ form }) => form === name)
  if (found === undefined) throw new Error(`no form "${name}"`)
  return structuredClone(found.tokenizer) as JsonObject
}

test('there are forms, and those that are refused are among them', () => {
  expect(forms.length).toBeGreaterThan(50)
  expect(forms.map(({ form }) => form)).toEqual(expect.arrayContaining([...Object.keys(REFUSED), ...SPELLED_OTHERWISE]))
})

describe.each(forms)('$form', ({ form, tokenizer: file, cases }) => {
  const refused = REFUSED[form]
  if (refused !== undefined) {
    it('is refused by name', () => {
      expect(() => createHuggingFaceTokenizer(file)).toThrow(
        expect.objectContaining({ code: 'unsupported_tokenizer', message: expect.stringContaining(refused) }),
      )
    })
    return
  }

  it('has the ids of the reference implementation', () => {
    const tokenizer = createHuggingFaceTokenizer(file)
    const spell = (ids: readonly number[]) => ids.map((id) => tokenizer.idToToken(id))
    for (const { text, ids, whole = ids } of cases) {
      const given = JSON.stringify(text)
      expect(spell(tokenizer.encode(text, { parseSpecial: true })), given).toEqual(spell(ids))
      expect(tokenizer.encode(text, { parseSpecial: true, addSpecialTokens: true }), given).toEqual(whole)
    }
  })

  it('has its text, whole and token by token', () => {
    const tokenizer = createHuggingFaceTokenizer(file)
    for (const { text, ids, decoded } of cases) {
      const streamed = createStreamDecoder(tokenizer)
      const pieces = ids.map((id) => streamed.push(id)).join('') + streamed.flush()
      expect(pieces, JSON.stringify(text)).toBe(tokenizer.decode(ids))
      if (!SPELLED_OTHERWISE.includes(form)) expect(pieces, JSON.stringify(text)).toBe(decoded)
    }
  })
})

test('control tokens in text that a user wrote stay text, normalized or not', () => {
  for (const form of ['added, both strips', 'added, normalized and special']) {
    const tokenizer = createHuggingFaceTokenizer(formOf(form))
    const id = tokenizer.tokenToId('<t>') ?? -1
    expect(tokenizer.encode('A<t>b<t>', { parseSpecial: true }).filter((each) => each === id)).toHaveLength(2)
    expect(tokenizer.encode('A<t>b<t>')).not.toContain(id)
    // the first is the template's, the second the user's
    const ids = tokenizer.encode('A<t>b<t>', { parseSpecial: true, barriers: [6] })
    expect(ids.filter((each) => each === id)).toHaveLength(1)
  }
})

test.each<readonly [string, (file: JsonObject) => void, RegExp]>([
  [
    'a field of another type',
    (file) => set(file, 'model', { byte_fallback: 'true' }),
    /model\.byte_fallback" must be true or false, got "true"/,
  ],
  [
    'a flag of a token',
    (file) => set(file, 'added_tokens', { lstrip: 1 }),
    /added_tokens\[\]\.lstrip" must be true or false/,
  ],
  [
    'a normalizer that nobody knows',
    (file) => void Object.assign(file, { normalizer: { type: 'Rot13' } }),
    /normalizer "Rot13"/,
  ],
  [
    'a post-processor that nobody knows',
    (file) => void Object.assign(file, { post_processor: { type: 'Mirror' } }),
    /post-processor "Mirror"/,
  ],
  ['a model that nobody knows', (file) => set(file, 'model', { type: 'Markov' }), /model "Markov"/],
  ['no unknown token', (file) => set(file, 'model', { unk_id: null }), /model\.unk_id/],
  ['an unknown token beyond the vocabulary', (file) => set(file, 'model', { unk_id: 4096 }), /model\.unk_id" is 4096/],
  [
    'a damaged table',
    (file) => void Object.assign(file, { normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } }),
    /charsmap" is damaged/,
  ],
])('%s is refused', (_name, change, message) => {
  const file = formOf('unigram')
  change(file)
  expect(() => createHuggingFaceTokenizer(file)).toThrow(message)
})

test('dropout, with which a text has other tokens each time, is refused, and none is none', () => {
  const file = formOf('bpe')
  set(file, 'model', { dropout: 0 })
  createHuggingFaceTokenizer(file)
  set(file, 'model', { dropout: 0.1 })
  expect(() => createHuggingFaceTokenizer(file)).toThrow(/dropout/)
})

test('fields that nothing reads are named once each, and those of every kind of part are known', () => {
  for (const { form, tokenizer } of forms) if (!(form in REFUSED)) expect(checkFields(tokenizer), form).toEqual([])
  const file = formOf('unigram, words and metaspace')
  set(file, 'model', { n_best: 4 })
  set(file, 'added_tokens', { color: 'red' })
  Object.assign(file, { extra: 1, normalizer: { type: 'Sequence', normalizers: [{ type: 'NFC', strict: true }] } })
  expect(checkFields(file)).toEqual(['extra', 'normalizer.strict', 'model.n_best', 'added_tokens[].color'])
})

test('a token keeps the id that the model has, and what of the file is not read stands in the notes', () => {
  const file = formOf('unigram')
  const tokens = file['added_tokens'] as JsonObject[]
  const token = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }
  Object.assign(file, {
    added_tokens: [...tokens, { ...token, id: 900, content: 'ab' }, { ...token, id: 3, content: '<z>' }],
  })
  set(file, 'model', { n_best: 4 })
  const tokenizer = createHuggingFaceTokenizer(file)
  expect(tokenizer.encode('ab', { parseSpecial: true })).toEqual([
    createHuggingFaceTokenizer(formOf('unigram')).tokenToId('ab'),
  ])
  expect(tokenizer.notes).toEqual([
    'its tokenizer.json has fields that nothing reads: model.n_best',
    expect.stringMatching(
      /^added tokens of its tokenizer\.json have another id in the vocabulary: "ab" \(900, taken as \d+\)$/,
    ),
    expect.stringMatching(/^added tokens of its tokenizer\.json share an id with others: "<z>" \(3, as /),
  ])
})

/** Fields of a part, or of each object of a list. */
function set(file: JsonObject, name: string, fields: JsonObject): void {
  const part = file[name]
  for (const object of Array.isArray(part) ? part : [part]) Object.assign(object as JsonObject, fields)
}

describe('added tokens as tokenizer_config.json says them', () => {
  const vocab = Object.fromEntries(
    ['<unk>', '<s>', '</s>', '▁', 'h', 'i', 'x', '▁h', '<', '/', 's', '>', '<q>'].map((token, id) => [token, id]),
  )
  const special = (content: string, flags: JsonObject = {}) => ({
    ...{ content, special: true, normalized: true, lstrip: false, rstrip: false, single_word: false },
    ...flags,
  })
  const file: JsonObject = {
    added_tokens: ['<unk>', '<s>', '</s>'].map((content, id) => ({ id, ...special(content) })),
    normalizer: {
      type: 'Sequence',
      normalizers: [
        { type: 'Prepend', prepend: '▁' },
        { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      ],
    },
    model: { type: 'BPE', vocab, merges: ['▁ h'], unk_token: '<unk>' },
  }
  const plain = { normalized: false }

  // ids of transformers 5.24 with tokenizers 0.23
  it.each<[string, JsonObject, number[], number[]]>([
    ['nothing', {}, [7, 5, 8, 9, 10, 11, 7], [7, 5, 8, 0, 11, 4]],
    ['not normalized', { 2: special('</s>', plain) }, [7, 5, 2, 3, 7], [7, 5, 8, 0, 11, 4]],
    ['by another id', { 9: special('</s>', plain) }, [7, 5, 2, 3, 7], [7, 5, 8, 0, 11, 4]],
    ['it swallows spaces', { 2: special('</s>', { ...plain, rstrip: true }) }, [7, 5, 2, 7], [7, 5, 8, 0, 11, 4]],
    ['a token of the vocabulary', { 12: special('<q>', plain) }, [7, 5, 8, 9, 10, 11, 7], [7, 5, 12, 7]],
    ['one that there is not', { 13: special('</e>', plain) }, [7, 5, 8, 9, 10, 11, 7], [7, 5, 8, 0, 11, 4]],
  ])('%s', (_, configured, ended, asked) => {
    const tokenizer = createHuggingFaceTokenizer(file, {}, configured)
    expect(tokenizer.encode('hi</s> h', { parseSpecial: true })).toEqual(ended)
    expect(tokenizer.encode('hi<q>h', { parseSpecial: true })).toEqual(asked)
  })

  it('is told of what is not found right behind text, and of what the tokenizer lacks', () => {
    const notes = (configured: JsonObject) => createHuggingFaceTokenizer(file, {}, configured).notes
    expect(notes({})).toEqual([expect.stringMatching(/not found right behind text: "<unk>", "<s>", "<\/s>"/)])
    const all = { 0: special('<unk>', plain), 1: special('<s>', plain), 2: special('</s>', plain) }
    expect(notes(all)).toEqual([])
    expect(notes({ ...all, 13: special('</e>') })).toEqual([expect.stringMatching(/tokenizer.json lacks: "<\/e>"/)])
    expect(createHuggingFaceTokenizer({ ...file, normalizer: { type: 'Lowercase' } }).notes).toEqual([])
  })

  it('a special token stays one, whatever the configuration calls it', () => {
    const tokenizer = createHuggingFaceTokenizer(file, {}, { 2: special('</s>', { ...plain, special: false }) })
    expect(tokenizer.isSpecial(2)).toBe(true)
    expect(tokenizer.encode('hi</s>')).not.toContain(2)
  })
})
