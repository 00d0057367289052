/**
 * Why a conversation did not become one sequence: the first token at which a later prompt leaves what came before it.
 *
 * Two causes are told apart. The prompt may spell the same text in other tokens: a sampler is free to spell a word in pieces
 * that the tokenizer would not choose, and a client that sends the text back gets the tokenizer's choice. Or the template writes
 * earlier turns in another way than they were sampled: reasoning removed, a tool call printed anew, white space trimmed.
 */

/** A turn as far as merging looks at it. */
interface Turn {
  readonly promptIds: ArrayLike<number>
  readonly completionIds: ArrayLike<number>
}

/** Where and why a history was cut. */
export interface HistorySplit {
  /** Number of the turn, from 1, whose prompt differs. */
  readonly turn: number
  /** Position in that prompt. */
  readonly position: number
  readonly cause: 'other_tokens' | 'other_text'
  /** The token that stood there, and the one the prompt has; null where the prompt ends before it. */
  readonly before: number
  readonly now: number | null
}

/** Names of causes in the job's report. */
export const SPLIT_CAUSES = { other_tokens: 'retokenized', other_text: 'rendered_anew' } as const

/**
 * Finds the first cut of a history's turns.
 *
 * @param textOf the text that ids spell
 * @returns null when every prompt begins with all tokens before it
 */
export function findSplit(turns: readonly Turn[], textOf: (ids: readonly number[]) => string): HistorySplit | null {
  let before: number[] = []
  for (const [index, { promptIds, completionIds }] of turns.entries()) {
    const position = before.findIndex((id, t) => promptIds[t] !== id)
    if (position !== -1) {
      const rest = Array.from(promptIds).slice(position)
      const isSameText = textOf(rest).startsWith(textOf(before.slice(position)))
      return {
        turn: index + 1,
        position,
        cause: isSameText ? 'other_tokens' : 'other_text',
        before: before[position] ?? 0,
        now: promptIds[position] ?? null,
      }
    }
    before = [...Array.from(promptIds), ...Array.from(completionIds)]
  }
  return null
}
