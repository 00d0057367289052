/**
 * One episode: messages and sampled answers in order, with a reward. And several of the same task: a group.
 *
 * An answer is kept as the choice the service sent, with token ids and log-probabilities: those tokens are what training
 * learns from. Knows no model; whoever makes a trajectory says how it asks.
 */

import { AppError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { ChatChoice, ChatRequestBody, ChatResponse } from '#contract/wire/chat-completions.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { countTraining } from '#formats/rows/which-train.js'
import { type ToolCall, toolCallsOf } from './tool-calls.js'

/** A message as chat requests carry it. */
export type Message = ChatRequestBody['messages'][number]
/** A tool as chat requests carry it: `{ type: 'function', function: { name, description, parameters } }`. */
export type Tool = NonNullable<ChatRequestBody['tools']>[number]
/** A sampled answer with what training needs. */
export type Choice = ChatChoice & {
  readonly prompt_token_ids?: readonly number[] | null
  /** What of the trajectory's reward it earned: as a turn, or each of its tokens. Default: nobody says. */
  reward?: number | readonly number[] | null
}

/** What the model said. */
export interface Answer {
  readonly content: string
  /** Calls of tools, arguments parsed; also those that a model wrote into its text in the Hermes form. */
  readonly toolCalls: readonly ToolCall[]
  /** `stop`, `length`, `tool_calls`… */
  readonly finishReason: string | null
  readonly choice: Choice
}

export interface AskOptions {
  /** Longest answer, tokens. Default: what the model's context leaves. */
  readonly maxTokens?: number
  /** Default 1. Answers say theirs, and it is what trains; those at 0 teach nothing. */
  readonly temperature?: number
  readonly seed?: number
  readonly stop?: readonly string[]
  /** Any other field of the request, as the API spells it. With `top_p` or `min_p` alone `top_k` is 512, so that what was drawn from is recorded. */
  readonly body?: Partial<ChatRequestBody>
  readonly signal?: AbortSignal
}

/** Sends one chat request; the model that makes a trajectory supplies it. */
export type Ask = (
  request: Pick<ChatRequestBody, 'messages' | 'tools'>,
  options: AskOptions & { readonly n?: number },
) => Promise<ChatResponse>

export interface History {
  readonly items: (Message | Choice)[]
  tools: readonly Tool[] | null
}

/** An episode. `reward`, `metrics` and `metadata` are yours to set; `metrics` are averaged, `metadata` is kept. */
export class Trajectory {
  reward = 0
  readonly metrics: Record<string, number | boolean> = {}
  readonly metadata: Record<string, JsonValue> = {}
  readonly logs: string[] = []
  /** The first history is the episode itself; others are side conversations that share its reward. */
  readonly histories: History[]
  readonly #ask: Ask | null
  #firstVersion: number | null = null
  #lastVersion: number | null = null

  constructor(
    messages: readonly Message[] = [],
    options: { readonly tools?: readonly Tool[]; readonly ask?: Ask } = {},
  ) {
    this.histories = [{ items: [...messages], tools: options.tools ?? null }]
    this.#ask = options.ask ?? null
  }

  /** The episode's messages, answers among them, as the next request sends them. */
  get messages(): readonly Message[] {
    return this.#main.items.map(toMessage)
  }

  /** Text of the last answer; empty before the first one. */
  get answer(): string {
    return this.choices.at(-1)?.message.content ?? ''
  }

  /** The answers of the episode, oldest first. */
  get choices(): readonly Choice[] {
    return this.#main.items.filter(isChoice)
  }

  /** Step of the model that gave the first answer; null where none says it. */
  get initialVersion(): number | null {
    return this.#firstVersion
  }

  /** Adds messages that were not sampled: a user's turn, a tool's result. */
  add(...messages: readonly Message[]): this {
    append(this.#main.items, messages)
    return this
  }

  /** Asks the model for the next turn and records it. */
  async ask(options: AskOptions = {}): Promise<Answer> {
    if (this.#ask === null) {
      throw new AppError('invalid_request', 'trajectory_without_model', 'this trajectory was made without a model', {
        hint: 'make it with model.trajectory(messages)',
      })
    }
    const { tools } = this.#main
    const request = { messages: [...this.messages], ...(tools === null ? {} : { tools: [...tools] }) }
    const response = await this.#ask(request, options)
    return this.record(response)
  }

  /**
   * Records an answer that was sampled elsewhere.
   *
   * @param history which conversation it continues; default the episode itself
   * @throws {AppError} `one_answer_per_turn` when the response holds more than one choice
   */
  record(response: ChatResponse, history: History = this.#main): Answer {
    const [first, second] = response.choices
    if (first === undefined || second !== undefined) {
      throw new AppError(
        'invalid_request',
        'one_answer_per_turn',
        `a trajectory records one answer per request, got ${response.choices.length}`,
        { hint: 'leave out n, or make one trajectory per answer with model.sample' },
      )
    }
    const choice: Choice = { ...first, prompt_token_ids: response.prompt_token_ids }
    history.items.push(choice)
    const version = versionOf(response)
    this.#firstVersion ??= version
    this.#lastVersion = version ?? this.#lastVersion
    return toAnswer(choice)
  }

  /** As the API takes it. */
  toJSON(): Readonly<Record<string, JsonValue>> {
    const [main, ...others] = this.histories.map(({ items, tools }) => ({
      messages_and_choices: items as JsonValue[],
      ...(tools === null ? {} : { tools: tools as readonly JsonValue[] }),
    }))
    return {
      ...main,
      ...(others.length === 0 ? {} : { additional_histories: others }),
      reward: this.reward,
      metrics: this.metrics,
      metadata: this.metadata,
      logs: this.logs,
      ...(this.#firstVersion === null ? {} : { initial_policy_version: this.#firstVersion }),
      ...(this.#lastVersion === null ? {} : { final_policy_version: this.#lastVersion }),
    }
  }

  get #main(): History {
    const [main] = this.histories
    if (main === undefined) throw new Error('a trajectory always has its own history')
    return main
  }
}

/** A rollout that failed, in the form of the API. */
export interface RolloutException {
  readonly type: string
  readonly message: string
  readonly traceback: string
}

/** Trajectories of the same task: the mean of their rewards is what each of them is measured against. */
export class TrajectoryGroup {
  readonly trajectories: readonly Trajectory[]
  /** Failed rollouts: counted, never trained on. */
  readonly exceptions: readonly RolloutException[]
  readonly metadata: Readonly<Record<string, JsonValue>>
  /** What its rewards can be at least and at most; null where nobody said: then nothing is said to be solved. */
  readonly rewardRange: RewardRange | null

  constructor(
    trajectories: readonly Trajectory[],
    options: {
      readonly exceptions?: readonly RolloutException[]
      readonly rewardRange?: RewardRange | null
      readonly metadata?: Readonly<Record<string, JsonValue>>
    } = {},
  ) {
    this.trajectories = trajectories
    this.exceptions = options.exceptions ?? []
    this.metadata = options.metadata ?? {}
    this.rewardRange = options.rewardRange ?? null
  }

  get rewards(): readonly number[] {
    return this.trajectories.map((trajectory) => trajectory.reward)
  }

  /** Mean reward; null of a group without trajectories. */
  get meanReward(): number | null {
    return mean(this.rewards)
  }

  /** Whether it trains by itself: its rewards differ. A job with `advantage_estimator: 'batch'` compares them with those of other groups. */
  get isTrainable(): boolean {
    return countTraining([this.rewards]) === 1
  }

  toJSON(): Readonly<Record<string, JsonValue>> {
    return {
      trajectories: this.trajectories.map((trajectory) => trajectory.toJSON()),
      exceptions: this.exceptions.map((exception) => ({ ...exception })),
      ...(this.rewardRange === null ? {} : { min_reward: this.rewardRange[0], max_reward: this.rewardRange[1] }),
      metadata: this.metadata,
    }
  }
}

/** What the model said, from a choice. */
export function toAnswer(choice: Choice): Answer {
  const content = choice.message.content ?? ''
  return { content, toolCalls: toolCallsOf(choice.message), finishReason: choice.finish_reason, choice }
}

/** A choice is told from a message by its `message`. */
export function isChoice(item: Message | Choice): item is Choice {
  return 'message' in item
}

/** A history's element as the next request sends it. */
export function toMessage(item: Message | Choice): Message {
  if (!isChoice(item)) return item
  const { role, content, tool_calls: calls } = item.message
  return {
    role,
    content: content ?? '',
    ...(calls.length === 0 ? {} : { tool_calls: calls as Record<string, unknown>[] }),
  }
}

/** The mean; null of nothing. */
export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length
}

/** The step of the checkpoint that answered, from the response's fingerprint `name:step3:digest`. */
function versionOf(response: ChatResponse): number | null {
  const step = /:step(\d+)(?::|$)/.exec(response.system_fingerprint ?? '')?.[1]
  return step === undefined ? null : Number(step)
}
