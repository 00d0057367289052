/**
 * What an environment of somebody else is to us, whatever it is made of: tasks, and episodes of them. A source is a row in
 * `sources/table.ts`; who plays, trains and measures knows this interface only.
 */
import type { Environment as Variables } from '#base/environment.js'
import type { JsonObject } from '#base/util/json.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import type { Player } from '#plugins/rl-library/environment.js'
import type { Client } from '#sdk/client/client.js'
import type { AskOptions, Tool, Trajectory } from '#sdk/rl/trajectory.js'

export type Split = 'train' | 'eval'

export interface EnvironmentTask {
  /** Says which task it is, by what it asks: equal keys are the same task, in whichever split. */
  readonly key: string
  readonly seed: number
  /** What the source needs to play it, and a reward to judge it. */
  readonly facts: JsonObject
}

export interface EnvironmentDescription {
  readonly name: string
  readonly version: string
  /** Of all that says what is asked and what it earns: another digest is another environment. */
  readonly digest: string
  /** null: as many as one wants. */
  readonly tasks: number | null
  readonly tools: readonly Tool[]
  /** Whether the environment says itself what is measured; else tasks are held out. */
  readonly hasEvalSplit: boolean
  /** Names of what the reward is the sum of; empty where it has no parts. */
  readonly rewardParts: readonly string[]
  /** What an episode can earn; null: nobody says. */
  readonly rewardRange: RewardRange | null
}

/** Who answers. A source that is waited for plays it; one that asks by itself asks for `name` through `client`. */
export interface AskedModel extends Player {
  readonly client: Client
  /** As requests name it. */
  readonly name: string
  /** How it is sampled. */
  readonly sampling: AskOptions
}

export interface RolloutOptions {
  readonly seed: number
  readonly model: AskedModel
  /** Ends the episode, with all that it started. */
  readonly signal: AbortSignal
  /** Of which run, which group of it and which of the group's rollouts this is. */
  readonly run: string
  readonly group: string
  readonly index: number
}

/** Scores an answer that nobody sampled: what `env check` tries a scorer with. */
export interface Scoring {
  score(task: EnvironmentTask, answer: string, signal: AbortSignal): Promise<number>
  /** The answer that is right; null where the task has none. */
  reference(task: EnvironmentTask): string | null
}

export interface EnvironmentSource {
  describe(signal?: AbortSignal): Promise<EnvironmentDescription>
  /** So many tasks from a place on; fewer where there are no more. The same places are the same tasks. */
  tasks(split: Split, from: number, count: number, signal?: AbortSignal): Promise<readonly EnvironmentTask[]>
  /** Plays one episode. @throws {EnvironmentFailure} where the environment fails */
  rollout(task: EnvironmentTask, options: RolloutOptions): Promise<Trajectory>
  readonly scoring?: Scoring
  /** Episodes that it can play at once, where it knows; it may become fewer. */
  readonly mostAtOnce?: () => number | null
  /** Ends every process that it started. */
  close(): Promise<void>
}

/** What a source is opened with, all defaults filled in. */
export interface SourceSetup {
  /** What stands behind the scheme of the address. */
  readonly target: string
  /** Arguments of the environment (`--set`). */
  readonly settings: JsonObject
  readonly seed: number
  readonly maxTurns: number
  /** Whether turns say what they earned. */
  readonly turnRewards: boolean
  /** For each question to the environment. */
  readonly stepTimeoutMs: number
  readonly tasksFile: string | null
  /** Whether `--reward` or `--grader` judges, so that the environment need not. */
  readonly isJudgedElsewhere: boolean
  /** An interpreter; null: what is installed, or `python3`. */
  readonly python: string | null
  /** Whether packages may be fetched. */
  readonly install: boolean
  readonly isolate: boolean
  /** Variables that its processes see beside PATH, HOME and LANG. */
  readonly variables: Variables
  /** The caller's own variables: of these PATH, HOME and LANG. */
  readonly environment: Variables
  /** Where installed packages lie. */
  readonly dataDir: string
  /** Told what a person should know. */
  readonly say: (sentence: string) => void
}

/** Options that only some sources can heed; the others refuse them. */
export type SourceOption =
  | 'settings'
  | 'maxTurns'
  | 'turnRewards'
  | 'tasksFile'
  | 'python'
  | 'install'
  | 'isolate'
  | 'variables'

/** A kind of environment. */
export interface SourceKind {
  /** Before the colon of an address. */
  readonly scheme: string
  /** What stands behind the colon, as help shows it. */
  readonly target: string
  readonly summary: string
  readonly example: string
  readonly takes: readonly SourceOption[]
  /** Addresses without a scheme that are this kind's. */
  readonly isAddress?: (text: string) => boolean
  /** Loads what it is made of; nothing is started before it is asked. */
  readonly open: (setup: SourceSetup) => Promise<EnvironmentSource>
}
