/**
 * A GGUF file's tokenizer as the files of a Hugging Face directory: `tokenizer.json` and `tokenizer_config.json`.
 *
 * Source: the Rust crate `tokenizers`, whose JSON has no written specification.
 */
import { WeightsError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { TextModel } from '#model/text/text-model.js'
import { namedPreTokenizers } from '#model/text/vocabulary/named-pre-tokenizers.js'
import { type ExportFile, jsonFile } from '../export-file.js'

/** `llama_token_type` of llama.cpp. */
const UNUSED = 5
const USER_DEFINED = 4
/** What transformers takes as "no limit". */
const contextKey = 'model_max_length'

/** Both files of a GGUF tokenizer of kind `gpt2` or `llama`. */
export function vocabularyFiles(
  metadata: ReadonlyMap<string, unknown>,
  text: TextModel,
  contextLength: number,
): readonly ExportFile[] {
  const kind = metadata.get('tokenizer.ggml.model')
  const tokens = list(metadata, 'tokens')
  const types = list(metadata, 'token_type')
  const vocab: Record<string, number> = {}
  const added: JsonObject[] = []
  for (const [id, token] of tokens.entries()) {
    if (typeof token !== 'string' || types[id] === UNUSED) continue
    const isSpecial = text.tokenizer.isSpecial(id)
    if (!Object.hasOwn(vocab, token)) vocab[token] = id
    if (isSpecial || types[id] === USER_DEFINED) added.push(addedToken(id, token, isSpecial))
  }
  const parts =
    kind === 'gpt2'
      ? byteLevelParts(metadata, vocab)
      : kind === 'llama'
        ? scoredParts(metadata, { vocab, tokens, dropsLeadingSpace: text.tokenizer.dropsLeadingSpace })
        : null
  if (parts === null) {
    throw new WeightsError(
      'unsupported_export',
      `a GGUF tokenizer of kind "${String(kind)}" has no tokenizer.json here`,
    )
  }
  const spelling = (id: number | null | undefined): string | null =>
    id === null || id === undefined ? null : text.tokenizer.idToToken(id)
  const bos = spelling(text.bosTokenId)
  const addsBos =
    text.bosTokenId !== null && text.tokenizer.encode('', { addSpecialTokens: true })[0] === text.bosTokenId
  const tokenizer = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added,
    ...parts,
    post_processor: bos !== null && addsBos ? prefixing(bos, text.bosTokenId ?? 0) : (parts['post_processor'] ?? null),
  }
  const config = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    [contextKey]: contextLength,
    clean_up_tokenization_spaces: false,
    ...(bos === null ? {} : { bos_token: bos }),
    ...(spelling(text.eosTokenIds[0]) === null ? {} : { eos_token: spelling(text.eosTokenIds[0]) }),
    ...(text.chatTemplate === null ? {} : { chat_template: text.chatTemplate.source }),
  }
  return [jsonFile('tokenizer.json', tokenizer), jsonFile('tokenizer_config.json', config)]
}

function byteLevelParts(metadata: ReadonlyMap<string, unknown>, vocab: JsonObject): JsonObject {
  const name = String(metadata.get('tokenizer.ggml.pre') ?? 'default')
  const known = namedPreTokenizers.get(name)
  if (known === undefined) throw new WeightsError('unsupported_export', `GGUF pre-tokenizer "${name}" is not known`)
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }
  const splits = known.patterns.map((pattern) => ({
    type: 'Split',
    pattern: { Regex: pattern },
    behavior: 'Isolated',
    invert: false,
  }))
  return {
    normalizer: null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [...splits, byteLevel] },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      ...bpe(vocab, list(metadata, 'merges').map(String), null),
      ignore_merges: known.ignoresMerges ?? false,
    },
  }
}

/** SentencePiece-style: spaces as `▁`, unknown characters as bytes, merges in the order of their scores. */
function scoredParts(
  metadata: ReadonlyMap<string, unknown>,
  options: { vocab: JsonObject; tokens: readonly unknown[]; dropsLeadingSpace: boolean },
): JsonObject {
  const { vocab, tokens, dropsLeadingSpace } = options
  const scores = list(metadata, 'scores')
  const merges: { readonly text: string; readonly score: number }[] = []
  for (const [id, token] of tokens.entries()) {
    if (typeof token !== 'string' || vocab[token] !== id) continue
    for (let at = 1; at < token.length; at++) {
      const [left, right] = [token.slice(0, at), token.slice(at)]
      if (Object.hasOwn(vocab, left) && Object.hasOwn(vocab, right)) {
        merges.push({ text: `${left} ${right}`, score: Number(scores[id]) })
      }
    }
  }
  merges.sort((a, b) => b.score - a.score)
  const replace = { type: 'Replace', pattern: { String: ' ' }, content: '\u2581' }
  const strip = { type: 'Strip', content: ' ', start: 1, stop: 0 }
  return {
    normalizer: {
      type: 'Sequence',
      normalizers: [...(dropsLeadingSpace ? [{ type: 'Prepend', prepend: '\u2581' }] : []), replace],
    },
    pre_tokenizer: null,
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '\u2581' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        ...(dropsLeadingSpace ? [strip] : []),
      ],
    },
    model: {
      ...bpe(
        vocab,
        merges.map(({ text }) => text),
        '<unk>',
      ),
      fuse_unk: true,
      byte_fallback: true,
    },
  }
}

function bpe(vocab: JsonObject, merges: readonly string[], unknown: string | null): JsonObject {
  return {
    type: 'BPE',
    dropout: null,
    unk_token: unknown !== null && Object.hasOwn(vocab, unknown) ? unknown : null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab,
    merges,
  }
}

function addedToken(id: number, content: string, isSpecial: boolean): JsonObject {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: isSpecial }
}

/** A post-processor that puts one token before a text. */
function prefixing(token: string, id: number): JsonObject {
  const special = { SpecialToken: { id: token, type_id: 0 } }
  const [first, second] = [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }]
  return {
    type: 'TemplateProcessing',
    single: [special, first],
    pair: [special, first, { SpecialToken: { id: token, type_id: 1 } }, second],
    special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
  }
}

function list(metadata: ReadonlyMap<string, unknown>, name: string): readonly unknown[] {
  const value = metadata.get(`tokenizer.ggml.${name}`)
  return Array.isArray(value) ? value : []
}
