/**
 * The trainable turns of a history: which completions are trained on, what they were prompted with, and their exact ids.
 *
 * Ids are taken in this order: the choice's `token_ids` (or `token_id:<id>` texts) with `prompt_token_ids`; missing prompt ids
 * are rendered from the messages before the turn, as the sampler did; missing completion ids are found from token texts.
 * With `allowTrainingWithoutLogprobs`, turns without log-probabilities train too: their own ids if they have them, else the
 * rendered text of the turn.
 * Deviation from ART: a token text that is not in the vocabulary makes its choice untrainable and is counted; ART trains on
 * end-of-sequence in its place.
 */
import { DataError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { DataNotes } from '../../formats/rows/notes/data-notes.js'
import { isEmptyAnswer } from '../../formats/rows/notes/read-message.js'
import { isSpelledBy } from '../../formats/rows/notes/spelled-text.js'
import type { ChoiceSampling } from '../../formats/rows/sampling-record.js'
import type { ChoiceItem, History, HistoryItem, SampledToken } from '../../formats/rows/trajectory.js'
import { type Earned, earnedBefore } from './turn-rewards.js'

/** Messages and tools as a chat template takes them: no nulls, content never missing. */
export interface Conversation {
  readonly messages: readonly JsonObject[]
  readonly tools: readonly JsonObject[] | null
}

/** What tokenization needs from tokenizer and chat template, so that it can be tested without their files. */
export interface TrajectoryText {
  /** Token ids are below this. */
  readonly vocabularySize: number
  /** Ids of the conversation with the generation prompt of the next assistant turn. */
  renderPrompt(conversation: Conversation): ArrayLike<number>
  /** Ids of the whole conversation; mask 1 on its last assistant turn, end-of-turn token included. */
  renderLastTurn(conversation: Conversation): { readonly tokenIds: ArrayLike<number>; readonly mask: ArrayLike<number> }
  /** The messages that the chat template leaves out, as people are told of them. */
  leftOutOf(conversation: Conversation): readonly string[]
  /** The text that ids spell, control tokens included. */
  textOf(ids: readonly number[]): string
  /** Whether an id is that of a control token. */
  isControl(id: number): boolean
  /** Id of a token by its bytes or text; null when the vocabulary has no such token. */
  tokenIdOf(token: SampledToken): number | null
}

/** A completion to train on and the ids before it. */
export interface TrainableTurn {
  readonly promptIds: ArrayLike<number>
  readonly completionIds: ArrayLike<number>
  /** As long as `completionIds`, or null when the sampler's are unknown. */
  readonly logprobs: Float32Array | null
  /** How the completion was sampled, where that is trained; absent or null: plainly. */
  readonly sampling?: ChoiceSampling | null
  /** The completion ended by length. */
  readonly isTruncated: boolean
  /** What the turn earned, and what was earned before it; absent where its history does not say. */
  readonly credit?: Pick<ChoiceItem, 'reward'> & { readonly earned: Earned }
}

/** Why something that was submitted does not train. */
export type SkipReason =
  /** Trajectory whose reward equals its group's mean; includes groups of one and groups with equal rewards. */
  | 'zero_advantage'
  /** Trajectory in which nothing can be trained on. */
  | 'no_trainable_turn'
  /** Choice without log-probabilities. */
  | 'no_logprobs'
  /** Choice that ended by length, under `maskTruncated`. */
  | 'masked_truncated'
  /** Choice at temperature 0: its distribution has one answer, whose probability nothing changes. */
  | 'greedy'
  /** Choice with a token text that is not in the vocabulary. */
  | 'unknown_token_text'
  /** Choice without a sampled token. */
  | 'empty_completion'
  /** Recorded exchange of another protocol than chat, without its tokens. */
  | 'unsupported_exchange'
  /** Message that the chat template leaves out of what was rendered. */
  | 'left_out_message'
  /** Trajectory whose messages the chat template refuses. */
  | 'unrenderable'
  /** Sequence longer than the row, dropped whole. */
  | 'overlength'

export type SkipCounts = Record<SkipReason, number>

/** Which turns train. */
export interface TurnOptions {
  readonly text: TrajectoryText
  readonly allowTrainingWithoutLogprobs: boolean
  readonly maskTruncated: boolean
  /** Whether the distributions that answers say they were sampled from are trained, or that of the raw logits; default sampled. */
  readonly samplingRatio?: 'sampled' | 'raw'
  /** Takes what is worth saying about turns that train; default nobody. */
  readonly notes?: DataNotes | undefined
}

/** A sampler that opened its turn with this token had no use for the template's own think block. */
const THINK_TOKEN: SampledToken = { text: '<think>', bytes: null }
const THINK_END_TOKEN: SampledToken = { text: '</think>', bytes: null }
/** A template's empty think block: opening tag, line breaks, closing tag, line breaks. */
const THINK_BLOCK_TOKENS = 4

/** Code of the error for messages that the chat template refuses. */
export const UNRENDERABLE = 'unrenderable_trajectory'

/** Counts at zero. */
export function noSkips(): SkipCounts {
  return {
    zero_advantage: 0,
    no_trainable_turn: 0,
    no_logprobs: 0,
    masked_truncated: 0,
    greedy: 0,
    unknown_token_text: 0,
    empty_completion: 0,
    unsupported_exchange: 0,
    left_out_message: 0,
    unrenderable: 0,
    overlength: 0,
  }
}

/**
 * The counts as event data: `num_dropped_overlength` and `num_skipped_<reason>`, reasons that did not occur left out.
 */
export function skipMetrics(skips: SkipCounts): Record<string, number> {
  const { overlength, ...others } = skips
  const skipped = Object.entries(others).filter(([, count]) => count > 0)
  return {
    num_dropped_overlength: overlength,
    ...Object.fromEntries(skipped.map(([reason, count]) => [`num_skipped_${reason}`, count])),
  }
}

/**
 * Finds the trainable turns of one history, in order.
 *
 * @param path JSON path of the trajectory, quoted in errors
 * @param skips counts of choices that do not train; added to
 * @throws {DataError} `unrenderable_trajectory` when the chat template refuses the messages; `invalid_token_id` for ids
 *   outside the vocabulary
 */
export function trainableTurns(
  history: History,
  path: string,
  options: TurnOptions,
  skips: SkipCounts,
): TrainableTurn[] {
  /** Items that a rendering was made of. */
  let renderedCount = 0
  const earned = earnedBefore(history)
  const turns = history.items.flatMap((item, position) => {
    const turn = item.kind === 'choice' ? choiceTurn(item, position) : messageTurn(item, position)
    if (turn === null) return []
    assertInVocabulary(turn, path, options.text.vocabularySize)
    return [turn]
  })
  if (renderedCount > 0) {
    const rendered = conversationUpTo(history, renderedCount)
    skips.left_out_message += guarded(path, () => options.text.leftOutOf(rendered)).length
  }
  return turns

  function choiceTurn(choice: ChoiceItem, position: number): TrainableTurn | null {
    if (options.maskTruncated && choice.finishReason === 'length') return skip('masked_truncated')
    const sampling = options.samplingRatio === 'raw' ? null : choice.sampling
    const isUnscored = choice.logprobs === null && (sampling?.logprobs ?? null) === null
    if (isUnscored && !options.allowTrainingWithoutLogprobs) return skip('no_logprobs')
    if (sampling?.temperature === 0) return skip('greedy')
    if (choice.logprobs === null && choice.tokenIds === null) return renderedTurn(position)
    const completionIds = choice.tokenIds ?? idsOfTokens(choice.tokens ?? [], options.text)
    if (completionIds === null) return skip('unknown_token_text')
    if (completionIds.length === 0) return skip('empty_completion')
    if (choice.tokenIds !== null && !isSpelledBy(choice.message, choice.tokenIds, options.text)) {
      options.notes?.add('edited_answer', path)
    }
    const isTruncated = choice.finishReason === 'length'
    const promptIds = choice.promptTokenIds ?? withoutThinkBlock(renderPrompt(position), completionIds, options.text)
    const { logprobs } = choice
    return { promptIds, completionIds, logprobs, sampling, isTruncated, ...creditAt(position, choice) }
  }

  function messageTurn(item: HistoryItem, position: number): TrainableTurn | null {
    const mayTrain =
      options.allowTrainingWithoutLogprobs && history.source === 'messages' && item.message['role'] === 'assistant'
    return mayTrain ? renderedTurn(position) : null
  }

  function creditAt(position: number, { reward }: Pick<ChoiceItem, 'reward'> = {}): Pick<TrainableTurn, 'credit'> {
    const before = earned?.[position]
    if (before === undefined) return {}
    return { credit: { earned: before, ...(reward === undefined ? {} : { reward }) } }
  }

  function renderPrompt(position: number): ArrayLike<number> {
    renderedCount = Math.max(renderedCount, position)
    return guarded(path, () => options.text.renderPrompt(conversationUpTo(history, position)))
  }

  function renderedTurn(position: number): TrainableTurn | null {
    renderedCount = Math.max(renderedCount, position + 1)
    const { tokenIds, mask } = guarded(path, () => options.text.renderLastTurn(conversationUpTo(history, position + 1)))
    const ids = Int32Array.from(tokenIds)
    const bits = Uint8Array.from(mask)
    const start = bits.indexOf(1)
    if (start === -1) return skip('empty_completion')
    const message = history.items[position]?.message ?? {}
    if (isEmptyAnswer({ ...message, role: 'assistant' }, true)) options.notes?.add('empty_answer', path)
    return {
      promptIds: ids.subarray(0, start),
      completionIds: ids.subarray(start, bits.lastIndexOf(1) + 1),
      logprobs: null,
      sampling: null,
      isTruncated: false,
      ...creditAt(position),
    }
  }

  function skip(reason: SkipReason): null {
    skips[reason] += 1
    return null
  }
}

/** The first `count` items as template messages. */
function conversationUpTo(history: History, count: number): Conversation {
  return { messages: history.items.slice(0, count).map(toTemplateMessage), tools: history.tools }
}

/** Null fields dropped, missing content as an empty string, a choice's message as an assistant message. */
function toTemplateMessage(item: HistoryItem): JsonObject {
  const fields = Object.entries(item.message).filter(
    ([name, value]) => value !== null && !(name === 'tool_calls' && Array.isArray(value) && value.length === 0),
  )
  const role = item.kind === 'choice' ? 'assistant' : (item.message['role'] ?? 'user')
  return { ...Object.fromEntries(fields), role, content: item.message['content'] ?? '' }
}

function idsOfTokens(tokens: readonly SampledToken[], text: TrajectoryText): Int32Array | null {
  const ids = new Int32Array(tokens.length)
  for (const [t, token] of tokens.entries()) {
    const id = text.tokenIdOf(token)
    if (id === null) return null
    ids[t] = id
  }
  return ids
}

/** Cuts the empty think block that the template put at the end of the prompt when the completion opens one itself. */
function withoutThinkBlock(
  promptIds: ArrayLike<number>,
  completionIds: ArrayLike<number>,
  text: TrajectoryText,
): ArrayLike<number> {
  const think = text.tokenIdOf(THINK_TOKEN)
  if (think === null || completionIds[0] !== think) return promptIds
  const ids = Int32Array.from(promptIds)
  const start = ids.lastIndexOf(think)
  const block = start === -1 ? null : ids.subarray(start)
  const isBlock =
    block !== null && block.length <= THINK_BLOCK_TOKENS && block.includes(text.tokenIdOf(THINK_END_TOKEN) ?? -1)
  return isBlock ? ids.subarray(0, start) : ids
}

function assertInVocabulary(turn: TrainableTurn, path: string, vocabularySize: number): void {
  for (const ids of [turn.promptIds, turn.completionIds]) {
    for (let t = 0; t < ids.length; t += 1) {
      const id = ids[t] ?? -1
      if (id >= 0 && id < vocabularySize) continue
      throw new DataError(
        'invalid_token_id',
        `${path} holds token id ${id}, but ids must be from 0 to ${vocabularySize - 1}.`,
        { param: path },
      )
    }
  }
}

function guarded<Result>(path: string, render: () => Result): Result {
  try {
    return render()
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.replace(/\.$/, '').slice(0, 500) : 'unknown reason'
    throw new DataError(UNRENDERABLE, `${path} cannot be rendered by the chat template: ${reason}.`, {
      param: path,
      cause,
    })
  }
}
