/**
 * What the engine is asked and what it tells: token ids in, token events out.
 */
import type { AppError } from '#base/errors/errors.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { BeamRules } from './sampling/beam-rules.js'
import type { DrawRecord } from './sampling/draw-record.js'
import type { ProcessorRules } from './sampling/logits-processors.js'
import type { RankedToken } from './sampling/logprobs.js'
import type { SamplingRules } from './sampling/sampler.js'
import type { RepetitionRules, StopResult } from './sampling/stop-conditions.js'
import type { TokenMask } from './sampling/token-mask.js'

/** The token-level part of a request's sampling parameters. */
export interface GenerationRules extends SamplingRules, ProcessorRules {
  /** Choice i uses seed + i; null: random. */
  readonly seed: bigint | null
  /** Number of choices. */
  readonly n: number
  /** null: as long as the context allows. */
  readonly maxTokens: number | null
  readonly stopTokenIds: readonly number[]
  readonly ignoreEos: boolean
  /** Absent or null: off. */
  readonly repetition?: RepetitionRules | null
  /** Finds the n most likely answers instead of sampling; told when all are found. Absent or null: samples. */
  readonly beam?: BeamRules | null
  /** False: nobody reads log-probabilities, which an engine elsewhere may leave out then. Absent: they are read. */
  readonly hasLogprobs?: boolean
  /** Whether to tell how tokens were drawn, where it was not plainly. Absent: not. */
  readonly recordsDraws?: boolean
  /** How many alternatives to report per position. */
  readonly topLogprobs: number
  /** Tokens to report at each position behind those. Absent: none. */
  readonly logprobTokenIds?: readonly number[]
  /**
   * How many alternatives to report at each prompt position (`GenerationListener.onPromptToken`); absent or null: positions are
   * not reported. Such a prompt is computed from its first token on, whatever the cache holds.
   */
  readonly promptLogprobs?: number | null
  /**
   * Makes the mask of a choice, for output that must follow a grammar; absent: every token may come. Called once per choice
   * when the request is submitted.
   */
  readonly tokenMask?: ((choice: number) => TokenMask) | null
}

/** An immutable adapter and how to load it when it is not in memory. */
export interface AdapterSource {
  readonly digest: string
  load(): Promise<AdapterWeights>
}

export interface GenerationRequest {
  readonly id: string
  readonly promptTokenIds: readonly number[]
  readonly rules: GenerationRules
  /** null: the base model. */
  readonly adapter: AdapterSource | null
  /** Salts the prefix cache; null: shared. */
  readonly cacheSalt: string | null
  /** Requests with a lower number go first; default 0. From `BEHIND_ALL` on they wait while any other is computed. */
  readonly priority?: number
  /** Whose request it is: those with different keys take turns. Default: one for all. */
  readonly keyId?: string
  /** Whose engine nodes may see it. Absent: nobody's. */
  readonly owner?: RequestOwner
  /** What rules hold as functions, or as ids only, in words: for engines in other processes. */
  readonly words?: RuleWords
}

/** Whom a request belongs to; project null: to the entity as a whole. */
export interface RequestOwner {
  readonly entity: string
  readonly project: string | null
}

export interface RuleWords {
  /** What `tokenMask` keeps to: a `GrammarSpec`. */
  readonly grammar: { readonly kind: string } | null
  /** It holds only what follows the reasoning in which the prompt ends. */
  readonly isAfterReasoning: boolean
  readonly badWords: readonly string[]
}

/** One sampled token of one choice. */
export interface TokenEvent {
  readonly choice: number
  readonly tokenId: number
  /** Raw log-softmax of the model's logits at this position; under a mask, among the allowed tokens. */
  readonly logprob: number
  readonly top: readonly RankedToken[]
  /** How it was drawn, if the rules ask for it; absent: plainly, at temperature 1 from the whole vocabulary. */
  readonly drawn?: DrawRecord
  /** Set on the last token of the choice, unless the listener ends it. */
  readonly finishReason: StopResult['finishReason'] | null
  /** The stop token id, or the repetition, that ended the choice. */
  readonly stopReason: StopResult['stopReason']
}

/** How likely a token of the prompt was after those before it. The first one has nothing before it and is not reported. */
export interface PromptTokenEvent {
  readonly position: number
  readonly tokenId: number
  /** 1 + number of tokens that were more likely. */
  readonly rank: number
  /** Raw log-softmax of the model's logits. */
  readonly logprob: number
  readonly top: readonly RankedToken[]
}

/** Hears of one request; called between steps, never concurrently. Exactly one of `onFinished`, `onFailed` comes last. */
export interface GenerationListener {
  /** @param cachedTokens prompt tokens found in the prefix cache */
  onStarted(cachedTokens: number): void
  /** Heard in order of position, before the first token, if the rules ask for it. */
  onPromptToken?(event: PromptTokenEvent): void
  /** @returns whether the choice may go on; false ends it at once (a stop string) */
  onToken(event: TokenEvent): boolean
  /** The choice was cut by `abort`. */
  onAborted(choice: number): void
  onFinished(): void
  onFailed(error: AppError): void
}
