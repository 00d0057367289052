/**
 * Trains the byte-level BPE of `trainyard/spark` and writes its Hugging Face files.
 *
 * Digits stand alone, without a space before them, so that numbers are read digit by digit. Merges never cross a word, as the
 * pre-tokenizer cuts it. Source: Sennrich et al. 2016 (arXiv:1508.07909), on bytes as GPT-2. Deterministic: pairs with equal
 * counts merge in the order of their token ids.
 */
import { byteToCharacter } from '#model/text/vocabulary/byte-level.js'
import { compilePattern } from '#model/text/vocabulary/patterns.js'

/** Control tokens first, so that their ids do not depend on the vocabulary's size. */
export const CONTROL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
/** Tags of tools: one token each, but ordinary text, so that a tool call is seen in what the model writes. */
export const TAG_TOKENS = ['<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>', '<tools>', '</tools>']
const RESERVED = CONTROL_TOKENS.length + TAG_TOKENS.length

/** GPT-2's words, but every digit apart and without its space. */
const PATTERN = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
/** A pair seen less often is not worth a token. */
const MIN_PAIR_COUNT = 4
/** Ids of pairs as one number: left × this + right. */
const PAIR_BASE = 2 ** 20

/**
 * Learns merges from texts.
 *
 * @param {Iterable<string>} texts
 * @param {number} vocabularySize ids in total, with control tokens, tags and the 256 bytes
 * @returns {[string, string][]} merges in order, in the byte-level alphabet
 */
export function learnMerges(texts, vocabularySize) {
  const words = countWords(texts)
  /** Token id → spelling; ids follow the order of the vocabulary. */
  const spellings = [...byteToCharacter]
  /** @type {[string, string][]} */
  const merges = []
  const { counts, places } = countPairs(words)
  while (RESERVED + spellings.length < vocabularySize) {
    const best = mostFrequent(counts)
    if (best === null) break
    const [left, right] = [Math.floor(best / PAIR_BASE), best % PAIR_BASE]
    const merged = spellings.length
    merges.push([spellings[left], spellings[right]])
    spellings.push(spellings[left] + spellings[right])
    for (const index of places.get(best) ?? []) mergeIn(words[index], { left, right, merged, index, counts, places })
    counts.delete(best)
    places.delete(best)
  }
  return merges
}

/** @typedef {{ ids: number[], count: number }} Word @typedef {Map<number, number>} Counts @typedef {Map<number, Set<number>>} Places */

/** Distinct words as byte ids with their frequency. @param {Iterable<string>} texts @returns {Word[]} */
function countWords(texts) {
  /** @type {Map<string, number>} */
  const frequency = new Map()
  const pattern = compilePattern(PATTERN)
  for (const text of texts) {
    for (const [word] of text.matchAll(pattern)) frequency.set(word, (frequency.get(word) ?? 0) + 1)
  }
  const utf8 = new TextEncoder()
  return [...frequency].map(([word, count]) => ({ ids: [...utf8.encode(word)], count }))
}

/** @param {Word[]} words @returns {{ counts: Counts, places: Places }} */
function countPairs(words) {
  const counts = new Map()
  const places = new Map()
  for (const [index, { ids, count }] of words.entries()) {
    for (let at = 0; at + 1 < ids.length; at++)
      addPair(ids[at] * PAIR_BASE + ids[at + 1], { count, index, counts, places })
  }
  return { counts, places }
}

/** @param {number} pair @param {{ count: number, index: number, counts: Counts, places: Places }} where */
function addPair(pair, { count, index, counts, places }) {
  counts.set(pair, (counts.get(pair) ?? 0) + count)
  const known = places.get(pair)
  if (known === undefined) places.set(pair, new Set([index]))
  else known.add(index)
}

/** The pair with the highest count, the lowest of those; null when none is frequent enough. @param {Counts} counts */
function mostFrequent(counts) {
  let best = -1
  let bestCount = MIN_PAIR_COUNT - 1
  for (const [pair, count] of counts) {
    if (count > bestCount || (count === bestCount && pair < best)) {
      best = pair
      bestCount = count
    }
  }
  return best === -1 ? null : best
}

/**
 * Replaces a pair in a word and moves the counts of its neighbours.
 *
 * @param {Word} word
 * @param {{ left: number, right: number, merged: number, index: number, counts: Counts, places: Places }} merge
 */
function mergeIn(word, { left, right, merged, index, counts, places }) {
  const { ids, count } = word
  for (let at = 0; at + 1 < ids.length; at++) {
    const pair = ids[at] * PAIR_BASE + ids[at + 1]
    counts.set(pair, (counts.get(pair) ?? 0) - count)
  }
  const result = []
  for (let at = 0; at < ids.length; at++) {
    const isPair = ids[at] === left && ids[at + 1] === right
    result.push(isPair ? merged : ids[at])
    if (isPair) at++
  }
  word.ids = result
  for (let at = 0; at + 1 < result.length; at++) {
    addPair(result[at] * PAIR_BASE + result[at + 1], { count, index, counts, places })
  }
}

/**
 * `tokenizer.json`.
 *
 * @param {readonly (readonly [string, string])[]} merges
 */
export function tokenizerJson(merges) {
  const tokens = [...CONTROL_TOKENS, ...TAG_TOKENS, ...byteToCharacter, ...merges.map(([left, right]) => left + right)]
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [...CONTROL_TOKENS, ...TAG_TOKENS].map((content, id) => ({ id, ...addedToken(content) })),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: PATTERN }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges,
    },
  }
}

/** @param {string} content */
export const addedToken = (content) => ({
  content,
  lstrip: false,
  normalized: false,
  rstrip: false,
  single_word: false,
  special: CONTROL_TOKENS.includes(content),
})
