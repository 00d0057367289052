/**
 * The textual files of the model directory: tokenizer, chat template, end-of-turn tokens.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng } from '#base/util/rng.js'
import { FIRST_ABILITIES } from '../abilities/index.js'
import { trainingConversation } from '../data/conversations.js'
import { TEXT_SOURCES } from '../text/documents.js'
import { CHAT_TEMPLATE, chatSegments } from './chat-template.js'
import { addedToken, CONTROL_TOKENS, learnMerges, TAG_TOKENS, tokenizerJson } from './tokenizer.js'

/** Plain text weighs this much more for the tokenizer than for the model: it should read sentences well, too. */
const TEXT_WEIGHT = 2
const CONTEXT_LENGTH = 2048

/**
 * Texts for the tokenizer, drawn like the training mixture; control tokens and tool tags are taken out.
 *
 * @param {number} sizeBytes about this much, in UTF-16 units
 * @param {string} seed
 * @returns {Generator<string>}
 */
export function* tokenizerTexts(sizeBytes, seed) {
  const rng = createRng(`tokenizer ${seed}`)
  const shares = [...FIRST_ABILITIES.map(({ share }) => share), ...TEXT_SOURCES.map(({ share }) => TEXT_WEIGHT * share)]
  const written = shares.map(() => 0)
  const tags = new RegExp(
    [...CONTROL_TOKENS, ...TAG_TOKENS].map((token) => token.replaceAll('|', '\\|')).join('|'),
    'g',
  )
  for (let total = 0; total < sizeBytes; ) {
    const needs = shares.map((share, index) => written[index] / share)
    const at = needs.indexOf(Math.min(...needs))
    const ability = FIRST_ABILITIES[at]
    const text =
      ability === undefined
        ? TEXT_SOURCES[at - FIRST_ABILITIES.length].generate(rng, 'train')
        : chatSegments(trainingConversation(rng, ability, { abilities: FIRST_ABILITIES }))
            .map((segment) => segment.text)
            .join('')
    written[at] += text.length
    total += text.length
    for (const part of text.split(tags)) if (part !== '') yield part
  }
}

/**
 * Trains the tokenizer and writes `tokenizer.json`, `tokenizer_config.json` and `generation_config.json`.
 *
 * @param {string} directory made if missing
 * @param {{ vocabularySize: number, sizeBytes: number, seed: string }} options
 * @returns {number} ids in the vocabulary
 */
export function writeTextModel(directory, { vocabularySize, sizeBytes, seed }) {
  const json = tokenizerJson(learnMerges(tokenizerTexts(sizeBytes, seed), vocabularySize))
  mkdirSync(directory, { recursive: true })
  const write = (/** @type {string} */ name, /** @type {object} */ value) =>
    writeFileSync(join(directory, name), `${JSON.stringify(value, null, 1)}\n`)
  write('tokenizer.json', json)
  write('tokenizer_config.json', tokenizerConfig())
  write('generation_config.json', {
    eos_token_id: [CONTROL_TOKENS.indexOf('<|im_end|>'), CONTROL_TOKENS.indexOf('<|endoftext|>')],
  })
  return Object.keys(json.model.vocab).length
}

/** `tokenizer_config.json`. */
function tokenizerConfig() {
  const added = [...CONTROL_TOKENS, ...TAG_TOKENS]
  return {
    add_bos_token: false,
    add_prefix_space: false,
    added_tokens_decoder: Object.fromEntries(added.map((content, id) => [String(id), addedToken(content)])),
    bos_token: null,
    chat_template: CHAT_TEMPLATE,
    clean_up_tokenization_spaces: false,
    eos_token: '<|im_end|>',
    model_max_length: CONTEXT_LENGTH,
    pad_token: '<|endoftext|>',
    tokenizer_class: 'PreTrainedTokenizerFast',
    unk_token: null,
  }
}
