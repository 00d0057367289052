/**
 * What changes a row of logits before sampling: allowed ids, bad words, minimum length, bias, penalties, DRY, in this order.
 *
 * The order is vLLM's (v0.17). Each processor edits the row in place; log-probabilities are
 * read before any of them runs.
 */

import { createDry, type DryRules } from './dry.js'
import type { LogitsProcessor } from './logits-processor.js'

/** The request's fields that processors come from. */
export interface ProcessorRules {
  readonly repetitionPenalty: number
  readonly frequencyPenalty: number
  readonly presencePenalty: number
  readonly logitBias: Readonly<Record<string, number>> | null
  readonly allowedTokenIds: readonly number[] | null
  readonly minTokens: number
  /** Token sequences that must not be written; absent: none. */
  readonly badWords?: readonly (readonly number[])[]
  /** Absent or null: off. */
  readonly dry?: DryRules | null
}

/**
 * Builds the processors a request needs, in order; an empty list for plain sampling.
 *
 * @param stopIds end-of-sequence and stop token ids, forbidden until `minTokens` are generated
 */
export function createProcessors(
  rules: ProcessorRules,
  promptIds: readonly number[],
  stopIds: readonly number[],
): readonly LogitsProcessor[] {
  const processors: LogitsProcessor[] = []
  if (rules.allowedTokenIds !== null) processors.push(allowOnly(rules.allowedTokenIds))
  const badWords = rules.badWords ?? []
  if (badWords.length > 0) processors.push(forbidWords(badWords))
  if (rules.minTokens > 0 && stopIds.length > 0) processors.push(forbidUntil(rules.minTokens, stopIds))
  if (rules.logitBias !== null && Object.keys(rules.logitBias).length > 0) processors.push(addBias(rules.logitBias))
  const isPenalized = rules.repetitionPenalty !== 1 || rules.frequencyPenalty !== 0 || rules.presencePenalty !== 0
  if (isPenalized) processors.push(penalize(rules, new Set(promptIds)))
  const dry = rules.dry ?? null
  if (dry !== null && dry.multiplier > 0) processors.push(createDry(dry, promptIds))
  return processors
}

/** All other ids become impossible. */
function allowOnly(ids: readonly number[]): LogitsProcessor {
  return {
    fields: ['allowed_token_ids'],
    onlyForbids: true,
    apply: (logits) => {
      const kept = ids.map((id) => logits[id] ?? Number.NEGATIVE_INFINITY)
      logits.fill(Number.NEGATIVE_INFINITY)
      ids.forEach((id, i) => {
        logits[id] = kept[i] as number
      })
      return true
    },
  }
}

/** The last token of a word is impossible where the tokens before it have just been generated. */
function forbidWords(words: readonly (readonly number[])[]): LogitsProcessor {
  return {
    fields: ['bad_words'],
    onlyForbids: true,
    apply: (logits, outputIds) => {
      let hasActed = false
      for (const word of words) {
        const before = word.length - 1
        const start = outputIds.length - before
        const last = word[before]
        if (start < 0 || last === undefined || last >= logits.length) continue
        let isBegun = true
        for (let i = 0; i < before && isBegun; i++) isBegun = outputIds[start + i] === word[i]
        if (!isBegun) continue
        logits[last] = Number.NEGATIVE_INFINITY
        hasActed = true
      }
      return hasActed
    },
  }
}

function forbidUntil(minTokens: number, ids: readonly number[]): LogitsProcessor {
  return {
    fields: ['min_tokens'],
    onlyForbids: true,
    apply: (logits, outputIds) => {
      if (outputIds.length >= minTokens) return false
      for (const id of ids) logits[id] = Number.NEGATIVE_INFINITY
      return true
    },
  }
}

/** Biases are clamped to [-100, 100]; minus infinity, which forbids a token, stays. */
function addBias(bias: Readonly<Record<string, number>>): LogitsProcessor {
  const clamped = (value: number): number =>
    value === Number.NEGATIVE_INFINITY ? value : Math.min(100, Math.max(-100, value))
  const entries = Object.entries(bias).map(([id, value]) => [Number(id), clamped(value)] as const)
  return {
    fields: ['logit_bias'],
    onlyForbids: entries.every(([, value]) => value === Number.NEGATIVE_INFINITY),
    apply: (logits) => {
      for (const [id, value] of entries) logits[id] = (logits[id] ?? 0) + value
      return true
    },
  }
}

/** Repetition counts prompt and output; frequency and presence count the output only. */
function penalize(rules: ProcessorRules, promptIds: ReadonlySet<number>): LogitsProcessor {
  const { repetitionPenalty, frequencyPenalty, presencePenalty } = rules
  const counts = new Map<number, number>()
  let seen = 0
  const fields = Object.entries({
    repetition_penalty: repetitionPenalty !== 1,
    frequency_penalty: frequencyPenalty !== 0,
    presence_penalty: presencePenalty !== 0,
  }).filter(([, isSet]) => isSet)
  return {
    fields: fields.map(([field]) => field),
    onlyForbids: false,
    apply: (logits, outputIds) => {
      for (; seen < outputIds.length; seen++) {
        const id = outputIds[seen] as number
        counts.set(id, (counts.get(id) ?? 0) + 1)
      }
      if (repetitionPenalty !== 1) {
        const repeat = (id: number): void => {
          const logit = logits[id] as number
          logits[id] = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty
        }
        for (const id of promptIds) repeat(id)
        for (const id of counts.keys()) if (!promptIds.has(id)) repeat(id)
      }
      for (const [id, count] of counts) {
        logits[id] = (logits[id] as number) - frequencyPenalty * count - presencePenalty
      }
      return counts.size > 0 || repetitionPenalty !== 1
    },
  }
}
