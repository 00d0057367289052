/**
 * A `tokenizer.json` as GGUF's tokenizer tables: byte-level BPE (`gpt2`) and SentencePiece-style BPE (`llama`).
 *
 * GGUF knows pre-tokenizers by name only, so the name is found by trying: the one that cuts a probing text into the same
 * words, as llama.cpp's converter does with a digest of such a text. A tokenizer without an equivalent is refused.
 */
import { TokenizerError, WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { createGgufTokenizer } from '#model/text/gguf-tokenizer.js'
import { planPreTokenizer } from '#model/text/hf-pre-tokenizer.js'
import type { TextModel } from '#model/text/text-model.js'
import { namedPreTokenizers, splitterOf } from '#model/text/vocabulary/named-pre-tokenizers.js'
import type { Splitter } from '#model/text/vocabulary/pre-tokenizer.js'
import type { GgufEntries, GgufValue } from './gguf-file.js'

/** `llama_token_type` of llama.cpp. */
const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const
/** Tried in this order: of several names for the same words the one that most programs know. */
const PREFERRED = ['gpt-2', 'llama-bpe', 'qwen2', 'smollm', 'tekken', 'gpt-4o', 'deepseek-v3', 'dbrx']
/** Score of a token that no merge makes. */
const NO_MERGE_SCORE = -1e6

/** Text on which pre-tokenizers differ: contractions, digits, cases, signs, scripts, white space of all kinds. */
const PROBE = [
  "I'm sure they've said 'tis 3 33 333 3333 33333 1234567 we'Re DON'T x'LL ... !!! ~~~ #42 $9.99 50% a_b",
  'camelCaseWord HTTPServer  two   three    four\ttab\t\ttabs \n newline\n\nlines\r\n\r\nreturn   ',
  'naïve café Ünïcode Привет мир 你好世界 こんにちは 한국어 العربية हिन्दी \u00a0nbsp 🚀🎉👩‍💻 ½ Ⅷ ²',
  '(a+b)*[c]{d}<e>|f&g;h:i/j\\k`l"m?n@o^p=q-r.s,t  -- <|x|> http://example.com/a?b=c&d=e',
].join('\n')

/**
 * The tokenizer's entries for a model whose embedding has `rows` rows.
 *
 * @param json parsed `tokenizer.json`
 * @throws {WeightsError} `unsupported_export` where GGUF has no equivalent
 */
export function vocabularyEntries(json: JsonObject, text: TextModel, rows: number): GgufEntries {
  const model = isJsonObject(json['model']) ? json['model'] : {}
  if (!Array.isArray(model['merges']))
    throw unsupported(`its model is ${JSON.stringify(model['type'] ?? null)}, not BPE`)
  const plan = planPreTokenizer(json['pre_tokenizer'])
  const merges = model['merges'].map(toMerge)
  const added = new Map(
    (Array.isArray(json['added_tokens']) ? json['added_tokens'] : [])
      .filter(isJsonObject)
      .map((token) => [token['id'], token]),
  )
  const tokens = Array.from({ length: rows }, (_, id) => text.tokenizer.idToToken(id) ?? `[PAD${id}]`)
  const types = tokens.map((token, id) =>
    typeOf(token, { added: added.get(id), isKnown: text.tokenizer.idToToken(id) !== null }),
  )
  const entries = new Map<string, GgufValue>()
  const put = (key: string, value: GgufValue): void => void entries.set(`tokenizer.ggml.${key}`, value)
  if (plan.symbols === 'bytes') {
    put('model', { type: 'string', value: 'gpt2' })
    put('pre', { type: 'string', value: nameOfSplitter(plan.split, model['ignore_merges'] === true) })
    put('merges', { type: 'strings', value: merges.map((pair) => pair.join(' ')) })
  } else {
    put('model', { type: 'string', value: 'llama' })
    put('pre', { type: 'string', value: 'default' })
    put('scores', { type: 'float32s', value: scoresOf(tokens, merges) })
    put('add_space_prefix', { type: 'bool', value: text.tokenizer.dropsLeadingSpace })
  }
  put('tokens', { type: 'strings', value: tokens })
  put('token_type', { type: 'int32s', value: types })
  putBoundaries(put, text)
  assertSameTokens(entries, text)
  if (text.chatTemplate !== null) {
    entries.set('tokenizer.chat_template', { type: 'string', value: text.chatTemplate.source })
  }
  return entries
}

function putBoundaries(put: (key: string, value: GgufValue) => void, text: TextModel): void {
  const { tokenizer, bosTokenId, eosTokenIds } = text
  const [eos] = eosTokenIds
  const around = tokenizer.encode('', { addSpecialTokens: true })
  if (bosTokenId !== null) put('bos_token_id', { type: 'uint32', value: bosTokenId })
  if (eos !== undefined) put('eos_token_id', { type: 'uint32', value: eos })
  put('add_bos_token', { type: 'bool', value: bosTokenId !== null && around[0] === bosTokenId })
  put('add_eos_token', { type: 'bool', value: eos !== undefined && around.length > 1 && around.at(-1) === eos })
}

/** What we wrote, read by our own reader, must cut the probing text into the same tokens. */
function assertSameTokens(entries: GgufEntries, text: TextModel): void {
  const metadata = new Map([...entries].map(([key, { value }]) => [key, value]))
  const written = createGgufTokenizer(metadata).tokenizer.encode(PROBE)
  const expected = text.tokenizer.encode(PROBE)
  if (written.length !== expected.length || written.some((id, i) => id !== expected[i])) {
    throw unsupported('GGUF has no tokenizer that gives the same tokens')
  }
}

function typeOf(token: string, { added, isKnown }: { added: JsonObject | undefined; isKnown: boolean }): number {
  if (!isKnown) return TOKEN_TYPE.unused
  if (added !== undefined) {
    if (token === '<unk>') return TOKEN_TYPE.unknown
    return added['special'] === true ? TOKEN_TYPE.control : TOKEN_TYPE.userDefined
  }
  return /^<0x[0-9A-F]{2}>$/.test(token) ? TOKEN_TYPE.byte : TOKEN_TYPE.normal
}

function toMerge(value: JsonValue, rank: number): readonly [string, string] {
  const [left, right] = typeof value === 'string' ? value.split(' ', 2) : Array.isArray(value) ? value : []
  if (typeof left === 'string' && typeof right === 'string') return [left, right]
  throw new TokenizerError('invalid_tokenizer_file', `tokenizer field "model.merges[${rank}]" must be two tokens`)
}

/** SentencePiece's scores: the earlier a token is made by a merge, the higher. */
function scoresOf(tokens: readonly string[], merges: readonly (readonly [string, string])[]): readonly number[] {
  const ranks = new Map<string, number>()
  for (const [rank, [left, right]] of merges.entries()) {
    if (!ranks.has(left + right)) ranks.set(left + right, rank)
  }
  return tokens.map((token) => {
    const rank = ranks.get(token)
    return rank === undefined ? NO_MERGE_SCORE : -rank
  })
}

function nameOfSplitter(split: Splitter, ignoresMerges: boolean): string {
  const words = cut(split)
  for (const name of [...PREFERRED, ...namedPreTokenizers.keys()]) {
    const known = namedPreTokenizers.get(name)
    if (known === undefined || (known.ignoresMerges ?? false) !== ignoresMerges) continue
    if (cut(splitterOf(known)) === words) return name
  }
  throw unsupported('its pre-tokenizer has no name in GGUF')
}

function cut(split: Splitter): string {
  const words: string[] = []
  split(PROBE, (word) => words.push(word))
  return JSON.stringify(words)
}

function unsupported(problem: string): WeightsError {
  return new WeightsError('unsupported_export', `the tokenizer cannot be exported as GGUF: ${problem}`, {
    hint: 'export with format merged and convert that folder',
  })
}
