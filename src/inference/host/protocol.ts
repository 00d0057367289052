/**
 * Messages between the server process and an engine host (one child process per loaded base model), over Node IPC with
 * the `advanced` serializer. Types only: no code of either side.
 *
 * Every request ends with exactly one `finished` or `failed`. The host renders the chat template, tokenizes, schedules,
 * samples and decodes text; the server shapes the answer into the wire format.
 */
import type { ErrorMessage } from '#base/errors/error-message.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { AnswerFormat } from '#formats/answers/answer-format.js'
import type { PromptMark, SampledTurn } from '#model/text/sampled-turns.js'
import type { RequestOwner } from '../engine/generation.js'
import type { BeamRules } from '../engine/sampling/beam-rules.js'
import type { DrawRecord } from '../engine/sampling/draw-record.js'
import type { DryRules } from '../engine/sampling/dry.js'
import type { XtcRules } from '../engine/sampling/sampler.js'
import type { RepetitionRules } from '../engine/sampling/stop-conditions.js'
import type { GrammarSpec } from '../grammar/grammar-spec.js'
import type { EngineNode } from '../remote/engine-node.js'

export type { AnswerFormat } from '#formats/answers/answer-format.js'
export type { SampledTurn } from '#model/text/sampled-turns.js'
export type { RequestOwner } from '../engine/generation.js'
export type { DrawRecord } from '../engine/sampling/draw-record.js'
export type { GrammarSpec } from '../grammar/grammar-spec.js'
export type { EngineNode } from '../remote/engine-node.js'

/** An accelerator that was tried before it is computed with. */
export interface DeviceFacts {
  readonly name: 'webgpu' | 'cuda'
  /** Its card and driver, for people. */
  readonly description: string
  /** How many nodes of graphs the CPU computes, as a clause. */
  readonly placement: string
}

/** How to load the base model; sent once, first. */
export interface LoadCommand {
  readonly type: 'load'
  readonly baseModel: string
  /** Hugging Face directory or GGUF file. */
  readonly sourcePath: string
  /** Where prepared weights are kept, shared by all processes of this data directory. */
  readonly preparedDir: string
  /** `auto`: see `choose-precision.ts`. */
  readonly precision: 'auto' | 'f32' | 'int8' | 'int4'
  readonly threads: number | null
  /** What computes, which has proven itself; default the CPU. */
  readonly device?: DeviceFacts
  /** Ceiling for prompt + answer; null for the model's own context length. */
  readonly maxContextLength: number | null
  readonly maxConcurrentSequences: number
  /** Memory for keys and values; null for a share of the machine's. */
  readonly kvCacheBytes: number | null
  readonly speculation: 'auto' | 'off'
  /**
   * Who computes: this machine, engine nodes, or this machine for requests that no node may see. Default `local`.
   * Nodes are told of by `engine_nodes`.
   */
  readonly engines?: 'local' | 'remote' | 'auto'
}

/** Immutable adapter files of one checkpoint, checked when they are loaded; null adapter means the base model. */
export interface AdapterRef {
  /** Content digest: the host's cache key. */
  readonly digest: string
  /** How errors name the checkpoint, for example `step 3 of model "m"`. */
  readonly checkpoint: string
  /** `adapter_model.safetensors`, its `adapter_config.json` and, if there is one, `manifest.json`. */
  readonly files: Readonly<Record<string, { readonly path: string; readonly sha256: string }>>
}

/** A chat message as the wire carries it, already checked to have a `role`. */
export type ChatMessage = JsonObject & { readonly role: string }

export interface SamplingParameters {
  readonly temperature: number
  readonly topP: number
  /** 0: off. */
  readonly topK: number
  readonly minP: number
  readonly repetitionPenalty: number
  readonly frequencyPenalty: number
  readonly presencePenalty: number
  readonly logitBias: Readonly<Record<string, number>> | null
  /** Biases of texts: every token of the text gets it. Absent: none. */
  readonly textBias?: readonly (readonly [text: string, bias: number])[]
  readonly allowedTokenIds: readonly number[] | null
  /** Signed 64-bit; choice i uses seed + i; null: random. */
  readonly seed: bigint | null
  readonly n: number
  /** null: as long as the context allows; 0: the prompt is computed and nothing is generated. */
  readonly maxTokens: number | null
  readonly minTokens: number
  readonly stop: readonly string[]
  readonly stopTokenIds: readonly number[]
  readonly includeStopStrInOutput: boolean
  readonly ignoreEos: boolean
  readonly skipSpecialTokens: boolean
  /** False: nobody reads log-probabilities, which an engine elsewhere may leave out then. Absent: they are read. */
  readonly hasLogprobs?: boolean
  /** Whether to tell how tokens were drawn, where it was not plainly. Absent: not. */
  readonly recordsDraws?: boolean
  /** How many alternatives per position to report; 0 reports the sampled token only. */
  readonly topLogprobs: number
  /** Tokens to report at each position behind those. Absent: none. */
  readonly logprobTokenIds?: readonly number[]
  /** How many alternatives per prompt position to report in `prompt` events; absent or null: prompts are not reported. */
  readonly promptLogprobs?: number | null
  /** Texts that must not be written. Absent: none. */
  readonly badWords?: readonly string[]
  readonly repetition?: RepetitionRules | null
  /** `breakers` are texts no repetition reaches across. */
  readonly dry?: (Omit<DryRules, 'breakerIds'> & { readonly breakers: readonly string[] }) | null
  readonly xtc?: XtcRules | null
  /** Finds the n most likely answers, best first, instead of sampling; deltas come when all are found. */
  readonly beam?: BeamRules | null
}

/** A conversation for the model's chat template. */
export interface ConversationInput {
  /** Answers that may stand in it, which keep their tokens. */
  readonly sampled?: readonly SampledTurn[]
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly JsonValue[] | null
  readonly template: {
    readonly addGenerationPrompt: boolean
    readonly continueFinalMessage: boolean
    readonly addSpecialTokens: boolean
    readonly kwargs: JsonObject
    readonly documents: readonly JsonValue[] | null
    /** A template of the request's own, which takes the place of the model's. */
    readonly chatTemplate?: string | null
    /** System messages where the template takes none become part of the turns beside them. */
    readonly foldsSystem?: boolean
  }
}

/** A prompt that no template sees: text in which control tokens are recognised, or tokens. */
export interface RawInput {
  readonly prompt:
    | { readonly text: string; readonly addSpecialTokens: boolean }
    | { readonly tokenIds: readonly number[] }
}

export type PromptInput = ConversationInput | RawInput

export interface GenerateOptions {
  readonly id: string
  /** Keep the last k prompt tokens; -1: the most the context allows; null: off. */
  readonly truncatePromptTokens: number | null
  readonly sampling: SamplingParameters
  /** What the answer is held to; null: nothing. */
  readonly grammar: GrammarSpec | null
  /** Field of the caller's request that the grammar comes from, which its errors name. */
  readonly grammarParam?: string
  readonly adapter: AdapterRef | null
  /** Salts the prefix cache; null: shared. */
  readonly cacheSalt: string | null
  /** Requests with a lower number go first; default 0. */
  readonly priority?: number
  /** The key that asks: keys take turns. Absent: as one more key. */
  readonly keyId?: string
  /** Whose engine nodes may see it. Absent: nobody's. */
  readonly owner?: RequestOwner
  /** Tell the prompt's text in `started` (default false). */
  readonly echoesPrompt?: boolean
}

export type GenerateCommand = { readonly type: 'generate' } & GenerateOptions & PromptInput

/** Text work without generation; answered by one `text` event. */
export interface TextCommand {
  readonly type: 'text'
  readonly id: string
  readonly task: TextTask
}

/** Most tokens of a text that are listed, or read: beyond any context, and few enough to pass on at once. */
export const MAX_LISTED_TOKENS = 262_144

export type TextTask =
  /** A prompt to text and tokens. */
  | { readonly kind: 'tokenize'; readonly input: PromptInput; readonly hasTokenStrings?: boolean }
  /** A conversation to text alone. */
  | { readonly kind: 'render'; readonly input: ConversationInput }
  | { readonly kind: 'detokenize'; readonly tokenIds: readonly number[] }

/** Stop a request; it ends with `finished` after deltas of finish reason `abort`. */
export interface AbortCommand {
  readonly type: 'abort'
  readonly id: string
}

/** Forget an adapter whose files are about to be deleted. */
export interface ForgetAdapterCommand {
  readonly type: 'forget_adapter'
  readonly digest: string
}

/** A job computes on this machine from now on, or none does any more. */
export interface ShareCoresCommand {
  readonly type: 'share_cores'
  readonly isShared: boolean
}

/** All engine nodes of this base model that live; sent whenever something of it changes. */
export interface EngineNodesCommand {
  readonly type: 'engine_nodes'
  readonly nodes: readonly EngineNode[]
}

/** Finish running requests until the deadline, then exit 0. */
export interface ShutdownCommand {
  readonly type: 'shutdown'
  readonly deadlineMs: number
}

export interface PingCommand {
  readonly type: 'ping'
  readonly id: string
}

export type HostCommand =
  | LoadCommand
  | GenerateCommand
  | TextCommand
  | AbortCommand
  | ForgetAdapterCommand
  | ShareCoresCommand
  | EngineNodesCommand
  | ShutdownCommand
  | PingCommand

export interface LoadedEvent {
  readonly type: 'loaded'
  readonly baseModel: string
  readonly family: string
  readonly parameterCount: number
  readonly contextLength: number
  readonly vocabularySize: number
  /** Of the base model's weights, hexadecimal. */
  readonly weightsDigest?: string
  /** Null: engine nodes compute, each as it was started. */
  readonly precision: 'f32' | 'int8' | 'int4' | null
  /** Where it comes from: the setting, the model's size, a measurement, or what the device computes in. */
  readonly precisionReason?: 'setting' | 'size' | 'measured' | 'device'
  /** How many times as fast int8 products are as float32 ones; null if that was not measured. */
  readonly int8Speedup?: number | null
  /** What computes; absent: the CPU. */
  readonly device?: DeviceFacts
  /** Inside one operator; null: all cores. */
  readonly threads?: number | null
  /** The same while a job computes on this machine; null: no others. */
  readonly threadsBesideJob?: number | null
  readonly loadMs: number
  /** How the model writes tool calls and reasoning. */
  readonly answerFormat: AnswerFormat
  /** Names that its chat template reads from what it is rendered with. Absent: not known. */
  readonly templateNames?: readonly string[]
  readonly tokenizer: {
    /** Spellings; null: the model has none. */
    readonly bosToken: string | null
    readonly eosToken: string | null
    /** Jinja source. */
    readonly chatTemplate: string | null
  }
}

/** One reported logprob: raw log-softmax of the model's logits, natural log. */
export interface TokenLogprob {
  readonly id: number
  readonly logprob: number
  /** Text of this token alone as it adds to the stream; empty for a part of a character. */
  readonly text: string
  readonly bytes: readonly number[]
}

/** One sampled position: the sampled token, then alternatives by rank. */
export interface PositionLogprobs extends TokenLogprob {
  readonly top: readonly TokenLogprob[]
}

export type FinishReason = 'stop' | 'length' | 'repetition' | 'abort'

export interface StartedEvent {
  readonly type: 'started'
  readonly id: string
  readonly promptTokenIds: readonly number[]
  /** Prompt tokens found in the prefix cache. */
  readonly cachedTokens: number
  /** The prompt ends inside a reasoning block, so the answer begins in it. */
  readonly isReasoningOpen: boolean
  /** What a whole conversation was rendered to, by which an answer's tokens are found again in the next one. */
  readonly rendered?: PromptMark
  /** The prompt's text, if `echoesPrompt` asked for it. */
  readonly promptText?: string
  /** Keywords of a lax schema that answers are not held to, with their places (`#/items/uniqueItems`). Absent: none. */
  readonly unheld?: readonly string[]
  /** When, on the host's clock, as in deltas: only differences mean something. */
  readonly atMs?: number
}

/** One position of the prompt. */
export interface PromptPosition extends Omit<TokenLogprob, 'logprob'> {
  /** Null for the first token, which has nothing before it. */
  readonly logprob: number | null
  /** 1 + number of tokens that were more likely; null for the first token. */
  readonly rank: number | null
  readonly top: readonly TokenLogprob[]
  /** A control token that the prompt's text does not show. */
  readonly isHidden: boolean
}

/** Positions of the prompt in order, after `started` and before the first `delta`, if `promptLogprobs` asks for them. */
export interface PromptEvent {
  readonly type: 'prompt'
  readonly id: string
  readonly positions: readonly PromptPosition[]
}

/** Progress of one choice; text may be empty while tokens are held back. The last one carries `finishReason`. */
export interface DeltaEvent {
  readonly type: 'delta'
  readonly id: string
  readonly choice: number
  readonly text: string
  readonly tokenIds: readonly number[]
  readonly logprobs: readonly PositionLogprobs[]
  /** How each token was drawn, null for plainly; absent: all plainly, or not asked for. */
  readonly drawn?: readonly (DrawRecord | null)[]
  readonly finishReason: FinishReason | null
  /** The stop string or stop token id that ended the choice, or `repetition_detected`. */
  readonly stopReason: string | number | null
  readonly atMs?: number
}

export interface FinishedEvent {
  readonly type: 'finished'
  readonly id: string
}

/** A request (`id` set) or the load (`id` null) failed. */
export interface FailedEvent {
  readonly type: 'failed'
  readonly id: string | null
  readonly error: ErrorMessage
}

/** What a `text` command made. */
export interface TextEvent {
  readonly type: 'text'
  readonly id: string
  readonly result: TextResult
}

export interface TextResult {
  readonly text: string
  /** Empty where only text was asked for. */
  readonly tokenIds: readonly number[]
  /** How the vocabulary spells each token, where that was asked for. */
  readonly tokenStrings: readonly string[]
}

/** The engine's steps run on other threads from now on, because a job began or ended on this machine. */
export interface ThreadsEvent {
  readonly type: 'threads'
  readonly id: null
  /** null: all cores. */
  readonly threads: number | null
  /** For how long the change held the engine up. */
  readonly heldUpMs: number
  /** Why fewer threads could not be had. */
  readonly error: ErrorMessage | null
}

/**
 * Nobody asks, and the process holds much more than when its model was loaded, which it cannot give back: it may be replaced. Said once
 * each time the engine rests.
 */
export interface WornEvent {
  readonly type: 'worn'
  readonly id: null
  readonly residentBytes: number
  readonly loadedBytes: number
}

export interface PongEvent {
  readonly type: 'pong'
  readonly id: string
  readonly runningSequences: number
  readonly waitingRequests: number
  /** As `Engine.kvCacheUsage` and `Engine.preemptions`. */
  readonly kvCacheUsage: number
  readonly preemptions: number
}

export type HostEvent =
  | LoadedEvent
  | StartedEvent
  | PromptEvent
  | DeltaEvent
  | FinishedEvent
  | FailedEvent
  | TextEvent
  | ThreadsEvent
  | WornEvent
  | PongEvent

/** What the host sends: events in order, several where one step made them. */
export type HostEvents = readonly HostEvent[]
