/**
 * The typed form of what clients send as trajectory groups: episodes with rewards, and the sampled tokens inside them.
 *
 * Knows nothing about the wire names (parse.ts does), about models, or about how tokens are trained on (tokenize.ts).
 * Messages stay plain JSON, because only a chat template ever looks inside them.
 */
import type { JsonObject } from '#base/util/json.js'
import type { RewardRange } from './reward-range.js'
import type { ChoiceSampling } from './sampling-record.js'

/** A token named by its text, for choices that carry no token ids. */
export interface SampledToken {
  readonly text: string
  /** The token's bytes as the sampler reported them; null when it did not. */
  readonly bytes: readonly number[] | null
}

/** A message that was given to the policy, or an assistant message without sampling information. */
export interface MessageItem {
  readonly kind: 'message'
  readonly message: JsonObject
}

/**
 * A completion sampled from the policy: the trainable unit.
 *
 * `tokenIds`, `tokens` and `logprobs` have the same length where present. Ids come from `token_ids`, or from
 * `token_id:<id>` texts in the logprobs; `tokens` is set only when neither gave ids.
 */
export interface ChoiceItem {
  readonly kind: 'choice'
  readonly message: JsonObject
  readonly finishReason: string | null
  /** Exact ids the sampler was prompted with. */
  readonly promptTokenIds: Int32Array | null
  /** Exact ids that were sampled, with the end-of-turn token if it was sampled. */
  readonly tokenIds: Int32Array | null
  readonly tokens: readonly SampledToken[] | null
  /** Natural log-probability of each sampled token under the sampling policy, each at most 0: log-softmax of the raw logits. */
  readonly logprobs: Float32Array | null
  /** What of the trajectory's reward it earned: as a turn, or each of its tokens. Absent: nobody said. */
  readonly reward?: number | Float32Array
  /** The distribution that the tokens were drawn from; null: plainly, at temperature 1 from the whole vocabulary. */
  readonly sampling: ChoiceSampling | null
}

export type HistoryItem = MessageItem | ChoiceItem

/** One conversation: the content of a single context window. */
export interface History {
  readonly items: readonly HistoryItem[]
  readonly tools: readonly JsonObject[] | null
  /** `exchange`: recorded request and response; its earlier assistant messages are context, never trained on. */
  readonly source: 'messages' | 'exchange'
}

/** One episode and its reward. */
export interface Trajectory {
  /** The main history first, then the additional ones; may be empty. */
  readonly histories: readonly History[]
  readonly reward: number
  /** Step served when the rollout began; null when unknown. */
  readonly initialPolicyVersion: number | null
  /** Step served when the rollout ended; null when unknown. */
  readonly finalPolicyVersion: number | null
  /** Booleans are already 0 or 1. */
  readonly metrics: Readonly<Record<string, number>>
  readonly metadata: JsonObject
  /** Recorded exchanges of other protocols than chat (completions, responses, messages) that do not hold their tokens. */
  readonly unsupportedExchangeCount: number
}

/** A rollout that failed: takes no part in advantages or loss. */
export interface RolloutException {
  readonly type: string
  readonly message: string
}

/** Trajectories of one task: advantages are centred inside it. */
export interface TrajectoryGroup {
  readonly trajectories: readonly Trajectory[]
  readonly exceptions: readonly RolloutException[]
  /** What its rewards can be; null or absent where nobody said. */
  readonly range?: RewardRange | null
  readonly metadata: JsonObject
  readonly metrics: Readonly<Record<string, number>>
}
