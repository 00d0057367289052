/**
 * DRY ("don't repeat yourself"): makes the token unlikely that would go on with a repetition of what was written before, the
 * longer the repetition the more.
 *
 * Source: the sampler of text-generation-webui and llama.cpp (`dry_*` parameters), which defines penalty, defaults and breakers.
 * A candidate that would make a repetition of L tokens, L at least `allowedLength`, loses `multiplier * base ** (L - allowedLength)`.
 */
import type { LogitsProcessor } from './logits-processor.js'

export interface DryRules {
  /** 0: off. */
  readonly multiplier: number
  readonly base: number
  /** Repetitions shorter than this are free. */
  readonly allowedLength: number
  /** Tokens of prompt and output that are looked at, counted from the end; -1: all. */
  readonly lastTokens: number
  /** Tokens that no repetition reaches across. */
  readonly breakerIds: ReadonlySet<number>
}

/** Penalties beyond float32 are as good as this. */
const HIGHEST_PENALTY = 1e30

/** A processor of logits that applies the penalties. */
export function createDry(rules: DryRules, promptIds: readonly number[]): LogitsProcessor {
  return {
    fields: ['dry_multiplier'],
    onlyForbids: false,
    apply: (logits, outputIds) => {
      const found = repetitions(rules, promptIds, outputIds)
      for (const [id, length] of found) {
        const penalty = rules.multiplier * rules.base ** (length - rules.allowedLength)
        logits[id] = (logits[id] as number) - Math.min(penalty, HIGHEST_PENALTY)
      }
      return found.size > 0
    },
  }
}

/** Tokens that would go on with a repetition, and how long what they repeat is. */
function repetitions(
  rules: DryRules,
  promptIds: readonly number[],
  outputIds: readonly number[],
): ReadonlyMap<number, number> {
  const found = new Map<number, number>()
  const all = promptIds.length + outputIds.length
  const count = rules.lastTokens < 0 ? all : Math.min(all, rules.lastTokens)
  // Newest first, so that the end of the text is a prefix.
  const ids = new Int32Array(count)
  for (let i = 0; i < count; i++) {
    const at = all - 1 - i
    ids[i] = (at >= promptIds.length ? outputIds[at - promptIds.length] : promptIds[at]) as number
  }
  const reach = ids.findIndex((id) => rules.breakerIds.has(id))
  const longest = reach < 0 ? count : reach
  if (longest < rules.allowedLength || count < 2) return found
  const common = prefixLengths(ids)
  for (let i = 1; i < count; i++) {
    const length = Math.min(common[i] as number, longest)
    if (length < rules.allowedLength || length === 0) continue
    // The token that followed the earlier occurrence would make the repetition longer.
    const next = ids[i - 1] as number
    if (rules.breakerIds.has(next)) continue
    if (length > (found.get(next) ?? 0)) found.set(next, length)
  }
  return found
}

/** The Z function: how many values from position i on equal those from the start on. */
function prefixLengths(ids: Int32Array): Int32Array {
  const lengths = new Int32Array(ids.length)
  let start = 0
  let end = 0
  for (let i = 1; i < ids.length; i++) {
    let length = i < end ? Math.min(end - i, lengths[i - start] as number) : 0
    while (i + length < ids.length && ids[length] === ids[i + length]) length++
    lengths[i] = length
    if (i + length > end) {
      start = i
      end = i + length
    }
  }
  return lengths
}
