/**
 * Loops as other parts of the service have to do with them. A loop is a record that owns ordinary RL jobs: sample, grade, train,
 * evaluate, step by step, in a process of its own. Clients of OpenAI's fine-tuning see the same loops as reinforcement jobs.
 */
import type { JsonObject } from '#base/util/json.js'
import type { EpisodeTool } from './tools.js'

/** Whose loop it is; another owner sees nothing of it. */
export interface LoopOwner {
  readonly entity: string
  readonly project: string
  /** Key that what it uses is counted to. */
  readonly keyId: string | null
}

/** What a loop is to do. Decided when it is created, and shown as it is. */
export interface LoopSpec {
  readonly modelId: string
  /** Stored file of JSON Lines: `messages`, and whatever else templates of the grader name. */
  readonly promptsFileId: string
  /** The same form; null: `heldOutRows` rows of the prompts are held out, chosen by the seed. */
  readonly heldOutFileId: string | null
  readonly heldOutRows: number
  /** A grader of `plugins/graders/grading/spec.ts`, checked. */
  readonly grader: JsonObject
  /** Of chat completions; null: text. */
  readonly responseFormat: JsonObject | null
  readonly promptsPerStep: number
  readonly answersPerPrompt: number
  readonly steps: number
  /** Steps between evaluations; there is one before the first step and one after the last, too. */
  readonly evaluateEvery: number
  readonly answersPerHeldOut: number
  readonly seed: number
  /**
   * Body of chat completions of both, for example `max_completion_tokens`, `chat_template_kwargs`; temperature 1 where it says
   * nothing.
   */
  readonly sampling: JsonObject
  /** Configuration of its RL jobs, as `POST /v1/preview/training-jobs` takes it. */
  readonly training: JsonObject
  readonly limits: LoopLimits
  /** Who answers the model's calls; loops of before have none. */
  readonly tools?: readonly EpisodeTool[]
  /** Turns of the model in an episode with tools. */
  readonly maxEpisodeSteps?: number
}

/** At a limit a loop pauses, with an event; null: no limit. */
export interface LoopLimits {
  /** Tokens of model graders, prompts and answers together. */
  readonly graderTokens: number | null
  readonly seconds: number | null
  readonly endpointCalls: number | null
}

type LoopStatus = 'queued' | 'running' | 'paused' | 'succeeded' | 'failed' | 'cancelled'
export type LoopPhase = 'sampling' | 'grading' | 'training' | 'evaluating'

export interface LoopRecord {
  readonly id: string
  readonly owner: LoopOwner
  readonly spec: LoopSpec
  readonly status: LoopStatus
  readonly phase: LoopPhase | null
  /** Steps that have ended. */
  readonly step: number
  readonly spent: {
    readonly graderTokens: number
    readonly seconds: number
    readonly endpointCalls: number
    readonly trainedTokens: number
  }
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** What a step came to. */
export interface LoopStep {
  /** Of the loop: 0 before the first. */
  readonly loopStep: number
  /** Of the model, as its checkpoints are called. */
  readonly checkpointStep: number
  /** Job that trained on its answers; null: there was nothing to train on. */
  readonly jobId: string | null
  readonly trainReward: number | null
  /** Mean reward of the held-out rows; null: they were not asked. */
  readonly validReward: number | null
  /** What charts show beside the rewards, by the name of the series. */
  readonly numbers: Readonly<Record<string, number>>
}

/** A step whose checkpoint was measured on the held-out rows. */
export interface LoopEvaluation extends Pick<LoopStep, 'loopStep' | 'checkpointStep' | 'trainReward'> {
  readonly validReward: number
}

/** An answer of an evaluation, with what its graders said. Texts are cut. */
export interface LoopExample {
  /** What was asked last. */
  readonly prompt: string
  readonly answer: string
  readonly reward: number
  /** By the keys of a `multi`. */
  readonly parts: Readonly<Record<string, number>>
  readonly passes: Readonly<Record<string, boolean>>
  readonly errors: readonly { readonly grader: string; readonly flag: string; readonly message: string }[]
}

/** The best first, and the worst first. */
export interface LoopExamples {
  readonly best: readonly LoopExample[]
  readonly worst: readonly LoopExample[]
}

/**
 * What happened, in order. A `metrics` event has the data of OpenAI's reinforcement jobs, names exactly (graders of the guide).
 */
export interface LoopEvent {
  readonly id: string
  readonly type: 'message' | 'metrics'
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  readonly data: JsonObject
  readonly createdAtMs: number
}

export interface LoopService {
  /**
   * @param id chosen by the caller where it has one already @throws {AppError} `model_not_found`, `file_not_found`, `queue_full`
   */
  create(owner: LoopOwner, spec: LoopSpec, id?: string): Promise<LoopRecord>
  /** @throws {NotFoundError} `loop_not_found`, also for another owner's */
  get(owner: LoopOwner, id: string): Promise<LoopRecord>
  /** Newest first. @param after id behind which the page begins */
  list(
    owner: LoopOwner,
    page: { readonly after: string | null; readonly limit: number },
  ): Promise<readonly LoopRecord[]>
  /** Pauses at the next border of phases; of a loop that has ended: @throws {ConflictError} `loop_ended` */
  pause(owner: LoopOwner, id: string): Promise<LoopRecord>
  /** A paused loop waits again; others stay as they are. */
  resume(owner: LoopOwner, id: string): Promise<LoopRecord>
  /** Cancels the job that runs; the model keeps its step. */
  cancel(owner: LoopOwner, id: string): Promise<LoopRecord>
  /** The newest, or those with the highest reward, the newest of equals first; in this order. */
  evaluations(
    owner: LoopOwner,
    id: string,
    choice: { readonly order: 'newest' | 'best'; readonly limit: number },
  ): Promise<readonly LoopEvaluation[]>
  /** Oldest first. @param after id behind which the page begins */
  events(
    owner: LoopOwner,
    id: string,
    page: { readonly after: string | null; readonly limit: number },
  ): Promise<readonly LoopEvent[]>
}
