/**
 * A model that learns: registered once, asked during rollouts, trained on what came of them.
 *
 * Everything goes through the public API of the client, as any other program would do it.
 */

import { AppError } from '#base/errors/errors.js'
import { withRecordedSets } from '#base/sampling-record.js'
import type { JsonValue } from '#base/util/json.js'
import { maxOf } from '#base/util/lists.js'
import { isLowerBetter } from '#contract/jobs/best-metric.js'
import { advisedOptions, openPasses, sizeDefaults } from '#contract/jobs/size-defaults.js'
import { DEFAULT_PROJECT } from '#contract/settings/service.js'
import type { ChatRequestBody, ChatResponse } from '#contract/wire/chat-completions.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { Model } from '#contract/wire/models.js'
import type { LogTrajectoriesResponse } from '#contract/wire/trajectories.js'
import { countTraining, estimatorOf } from '#formats/rows/which-train.js'
import type { CallOptions, Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { parametersOf } from '#sdk/client/model-size.js'
import { eachItem } from '#sdk/client/pages.js'
import { type AskOptions, type Message, mean, type Tool, Trajectory, type TrajectoryGroup } from '#sdk/rl/trajectory.js'
import { captureFetch } from './capture.js'
import { needsExamples, sayOfGroups, sayOfMeasured } from './diagnose.js'
import { nameGroups } from './measurement.js'
import { openSession } from './open-session.js'
import type { TrainingSession } from './session.js'
import type { SessionOptions } from './session-options.js'
import {
  type RlTrainOptions,
  type RowsTrainOptions,
  type RowsTrainResult,
  runJob,
  type TrainOptions,
  type TrainResult,
} from './train.js'
import { timesShown } from './was-shown.js'

export interface ModelOptions {
  /** Unique within the project. */
  readonly name: string
  /** A base model of the service, for example `trainyard/spark`. */
  readonly baseModel: string
  /** Default `default`. */
  readonly project?: string
}

/** An example: the assistant's turns are what is learned. */
export interface Conversation {
  readonly messages: readonly Message[]
  readonly tools?: readonly Tool[]
}

/** Two answers to the same prompt: texts, or messages. Without `prompt`, what both conversations begin with is the prompt. */
export interface PreferencePair {
  readonly prompt?: string | readonly Message[]
  readonly chosen: string | readonly Message[]
  readonly rejected: string | readonly Message[]
}

/** How a client of another library reaches this model. */
export interface Connection {
  readonly baseURL: string
  readonly apiKey: string
  readonly fetch: typeof fetch
}

/**
 * @example
 * const model = await new TrainableModel(client, { name: 'orders', baseModel: 'trainyard/spark' }).register()
 * const groups = await gather(mails.map((mail) => group(8, () => rollout(mail))))
 * const { step, reward } = await model.train(groups, { learningRate: 1e-3 })
 */
export class TrainableModel {
  readonly client: Client
  readonly options: ModelOptions
  #record: Model | null = null
  /** Warnings that were told of. */
  readonly #warned = new Set<string>()

  constructor(client: Client, options: ModelOptions) {
    this.client = client
    this.options = options
  }

  /**
   * Creates the model, or takes the one that has this name.
   *
   * @throws {ApiError} when the name is taken by a model of another base model
   */
  async register(): Promise<this> {
    const { name, baseModel, project = DEFAULT_PROJECT } = this.options
    const record = await this.client.models.create({ name, project, base_model: baseModel, return_existing: true })
    if (record.base_model !== baseModel) {
      throw new AppError(
        'conflict',
        'base_model_mismatch',
        `model "${name}" exists with base model "${record.base_model}", not "${baseModel}"`,
        { hint: 'choose another name, or delete the model first' },
      )
    }
    this.#record = record
    return this
  }

  /** @throws {AppError} `model_not_registered` before `register()` */
  get id(): string {
    return this.#registered.id
  }

  /** Step of the newest checkpoint, as far as this object has seen. */
  get step(): number {
    return this.#registered.step
  }

  /** The name to ask for: the latest checkpoint, or that of a step. */
  inferenceName(step: number | null = null): string {
    return inferenceName(this.#registered, step)
  }

  /** Begins an episode: `ask()` on it asks this model and records the answer. */
  trajectory(messages: readonly Message[], options: { readonly tools?: readonly Tool[] } = {}): Trajectory {
    return new Trajectory(messages, { ...options, ask: (request, ask) => this.#complete(request, ask) })
  }

  /** `n` answers, one without a word, to the same messages in one request, each as a trajectory of its own. */
  async sample(
    messages: readonly Message[],
    { n = 1, tools, ...options }: AskOptions & { readonly n?: number; readonly tools?: readonly Tool[] } = {},
  ): Promise<readonly Trajectory[]> {
    const request = { messages: [...messages], ...(tools === undefined ? {} : { tools: [...tools] }) }
    const response = await this.#complete(request, { ...options, n })
    return response.choices.map((choice) => {
      const trajectory = this.trajectory(messages, tools === undefined ? {} : { tools })
      trajectory.record({ ...response, choices: [choice] })
      return trajectory
    })
  }

  /**
   * What another client needs to reach this model: for `new OpenAI(…)`, for `createOpenAICompatible(…)` of the Vercel AI SDK, or for anything
   * else that takes a `fetch`. A trajectory that is given records what the client does.
   */
  connection(trajectory?: Trajectory): Connection {
    const { baseURL, apiKey } = this.client.connection()
    return { baseURL, apiKey: apiKey ?? '', fetch: trajectory === undefined ? fetch : captureFetch(trajectory) }
  }

  /**
   * Trains on groups by reinforcement learning and waits for the new checkpoint. All groups are sent, those whose rewards are all
   * equal as well, which teach nothing and count in the means. When no group differs and no KL penalty trains, no job is started, the
   * step stays, and a warning says so.
   *
   * @throws {AppError} `no_trajectories` when every rollout failed; `TrainingFailedError` when the job did not complete
   */
  async train(groups: readonly TrajectoryGroup[], options: RlTrainOptions = {}): Promise<TrainResult> {
    const trajectories = groups.flatMap((group) => group.trajectories)
    const exceptions = groups.flatMap((group) => group.exceptions)
    const [first] = exceptions
    if (trajectories.length === 0) {
      const why = first === undefined ? 'no group was given' : `the first of them: ${first.message}`
      throw new AppError(
        'invalid_request',
        'no_trajectories',
        `there is nothing to train on, every rollout failed (${why})`,
      )
    }
    const config = await this.#configOf('rl', options)
    const estimator = estimatorOf(config)
    const facts = {
      reward: mean(trajectories.map((trajectory) => trajectory.reward)) ?? 0,
      exceptionRate: exceptions.length / (exceptions.length + trajectories.length),
      groups: groups.length,
      trainedGroups: countTraining(
        groups.map((group) => group.rewards),
        estimator,
      ),
    }
    if (facts.trainedGroups === 0) {
      const [why, ...others] = sayOfGroups(groups, { estimator })
      const warnings = [`nothing is trained, the model stays at step ${this.step}: ${why}`, ...others]
      this.#warn(warnings, options)
      return { ...facts, step: this.step, jobId: null, gradientSteps: 0, metrics: {}, seconds: 0, warnings }
    }
    const job = await runJob(
      this.client,
      options,
      (warnings) => this.#warn(warnings, options),
      (call) =>
        this.client.trainingJobs.createRl(
          {
            model_id: this.id,
            trajectory_groups: groups.map((group) => group.toJSON()),
            experimental_config: config,
          },
          call,
        ),
    )
    this.#moveTo(job.step)
    return { ...facts, ...job }
  }

  /**
   * Trains on example conversations by supervised fine-tuning and waits for the new checkpoint. As the command line does, it
   * shuffles them and, of a base model below 300 million parameters, holds some out and trains until those get no better, where
   * `config.shuffle`, `config.validation_split` and `config.epochs` do not say otherwise.
   */
  async trainSft(
    conversations: readonly Conversation[],
    options: RowsTrainOptions<Conversation> = {},
  ): Promise<RowsTrainResult> {
    return await this.#trainOnRows('sft', conversations, options)
  }

  /**
   * Trains on preferences by direct preference optimization and waits for the new checkpoint. Compared with the checkpoint it
   * starts from unless `config.reference_step` says otherwise. Pairs are shuffled unless `config.shuffle` says otherwise.
   */
  async trainDpo(
    pairs: readonly PreferencePair[],
    options: RowsTrainOptions<PreferencePair> = {},
  ): Promise<RowsTrainResult> {
    return await this.#trainOnRows('dpo', pairs, options)
  }

  async #trainOnRows(
    kind: Exclude<JobKind, 'rl'>,
    rows: readonly object[],
    { validation, ...options }: RowsTrainOptions<object>,
  ): Promise<RowsTrainResult> {
    const { createSft, createDpo } = this.client.trainingJobs
    const create = kind === 'sft' ? createSft : createDpo
    const config = await this.#configOf(kind, options)
    const blobOf = (all: readonly object[]) => new Blob(all.map((row) => `${JSON.stringify(row)}\n`))
    const training = blobOf(rows)
    if (kind === 'sft') {
      const parameters = await parametersOf(this.client, this.#registered.base_model, options)
      const hasValidation = validation !== undefined
      Object.assign(config, openPasses(config, { rows: rows.length, bytes: training.size, parameters, hasValidation }))
    }
    const upload = async (blob: Blob, name: string, call: CallOptions): Promise<string> =>
      (await this.client.files.upload(blob, name, call)).id
    const warn = (warnings: readonly string[]) => this.#warn(warnings, options)
    const job = await runJob(this.client, options, warn, async (call) => {
      const data = {
        training_data_url: await upload(training, 'train.jsonl', call),
        ...(validation === undefined
          ? {}
          : { validation_data_url: await upload(blobOf(validation), 'validation.jsonl', call) }),
      }
      return await create({ model_id: this.id, ...data, config }, call)
    })
    this.#moveTo(job.step)
    return job
  }

  /**
   * Opens a training session, for a loop of one's own: see `TrainingSession`. What it saves are checkpoints of this model.
   *
   * It begins with the latest checkpoint, or with what `from` says.
   *
   * @throws {AppError} `option_without_effect` for a rank or the like where there is an adapter already
   */
  async session(options: SessionOptions = {}): Promise<TrainingSession> {
    const { id, name, base_model: baseModel, step } = this.#registered
    const inference = (saved: number | null) => this.inferenceName(saved)
    const onSaved = (saved: number) => this.#moveTo(Math.max(saved, this.step))
    return await openSession(this.client, { id, name, baseModel, step, inferenceName: inference, onSaved }, options)
  }

  /**
   * Stores groups as an evaluation of the latest checkpoint: their means become its metrics `<split>/…`. The same measurement
   * again replaces them; another needs a split of its own, and is told of and not stored without.
   *
   * @throws {ApiError} `other_measurement` where `measurement` says that it is another
   * @returns the metrics, and `warnings`: what the answers say about where to begin, for example that none earned anything; told of as
   *   those of a job are
   */
  async evaluate(
    groups: readonly TrajectoryGroup[],
    options: {
      readonly split?: string
      /** Names what is measured. Default: its prompts and how answers were drawn; say another where the reward is another. */
      readonly measurement?: string
      readonly signal?: AbortSignal
      readonly onWarning?: (warning: string) => void
    } = {},
  ): Promise<LogTrajectoriesResponse & { readonly warnings: readonly string[] }> {
    const { split = 'val', measurement = nameGroups(groups) } = options
    const body = { split, measurement, trajectory_groups: groups.map((group) => group.toJSON()) }
    const refused: string[] = []
    const logged = await this.client.models.log(this.id, body, { signal: options.signal }).catch((error: unknown) => {
      const isOther = error instanceof ApiError && error.code === 'other_measurement'
      if (!isOther || options.measurement !== undefined) throw error
      refused.push(`not stored: ${error.message}; evaluate(groups, { split }) stores it beside that`)
      return this.#measured(groups, split)
    })
    const shown = needsExamples(groups) ? await timesShown(this.client, this.id, options.signal) : 0
    const warnings = [...refused, ...sayOfMeasured(groups, { shown })]
    this.#warn(warnings, options)
    return { ...logged, warnings }
  }

  /**
   * Deletes all checkpoints but the latest and the best by a metric.
   *
   * @param options.metric default `val/reward`; the highest value is best, of losses and errors the lowest (`isLowerBetter`)
   * @returns the steps that were deleted, and the best one; null when no checkpoint has the metric
   */
  async keepBest(
    options: { readonly metric?: string } = {},
  ): Promise<{ readonly best: number | null; readonly deletedSteps: readonly number[] }> {
    const metric = options.metric ?? 'val/reward'
    const sign = isLowerBetter(metric) ? -1 : 1
    const measured: { readonly step: number; readonly value: number }[] = []
    const steps: number[] = []
    for await (const checkpoint of eachItem((query) => this.client.checkpoints.list(this.id, query))) {
      steps.push(checkpoint.step)
      const value = checkpoint.metrics[metric]
      if (typeof value === 'number') measured.push({ step: checkpoint.step, value })
    }
    const best = measured.toSorted((a, b) => sign * (b.value - a.value) || b.step - a.step)[0]?.step ?? null
    const latest = maxOf(steps)
    // Without any measurement nothing says what is worth keeping: all stay.
    const deletedSteps = best === null ? [] : steps.filter((step) => step > 0 && step !== best && step !== latest)
    if (deletedSteps.length > 0) await this.client.checkpoints.delete(this.id, deletedSteps)
    return { best, deletedSteps }
  }

  /** What a log would have answered. */
  #measured(groups: readonly TrajectoryGroup[], split: string): LogTrajectoriesResponse {
    const trajectories = groups.flatMap((each) => each.trajectories)
    const reward = mean(trajectories.map((each) => each.reward)) ?? 0
    return {
      ...{ model_id: this.id, split, step: this.step, groups: groups.length, trajectories: trajectories.length },
      metrics: { [`${split}/reward`]: reward },
    }
  }

  get #registered(): Model {
    if (this.#record !== null) return this.#record
    throw new AppError(
      'invalid_request',
      'model_not_registered',
      `model "${this.options.name}" is not registered yet`,
      {
        hint: 'await model.register() first',
      },
    )
  }

  #warn(warnings: readonly string[], { onWarning }: Pick<TrainOptions, 'onWarning'>): void {
    // biome-ignore lint/suspicious/noConsole: a program that says nothing about warnings must still show them
    const tell = onWarning ?? ((warning: string) => console.warn(`trainyard: ${warning}`))
    for (const warning of warnings) {
      // other figures and examples of the same are not told again
      const key = warning.replaceAll(/"(?:[^"\\]|\\.)*"|\d[\d.e+-]*/g, '#')
      if (!this.#warned.has(key)) tell(warning)
      this.#warned.add(key)
    }
  }

  #moveTo(step: number): void {
    this.#record = { ...this.#registered, step }
  }

  /** Options of a job: what the caller says, and what was measured for a base model of this size where nothing is said. */
  async #configOf(
    kind: JobKind,
    { learningRate, targetKl, config, signal }: RlTrainOptions,
  ): Promise<Record<string, JsonValue>> {
    const given: Record<string, JsonValue> = { ...config, ...advisedOptions(kind, config ?? {}) }
    if (learningRate !== undefined) given['learning_rate'] = learningRate
    if (targetKl !== undefined) given['target_kl'] = targetKl
    const parameters = await parametersOf(this.client, this.#registered.base_model, { signal })
    return { ...given, ...sizeDefaults(kind, given, parameters) }
  }

  async #complete(
    request: Pick<ChatRequestBody, 'messages' | 'tools'>,
    options: AskOptions & { readonly n?: number },
  ): Promise<ChatResponse> {
    return await this.client.chat.create(
      {
        model: this.inferenceName(),
        ...request,
        temperature: options.temperature ?? 1,
        ...(options.n === undefined ? {} : { n: options.n }),
        ...(options.maxTokens === undefined ? {} : { max_completion_tokens: options.maxTokens }),
        ...(options.seed === undefined ? {} : { seed: options.seed }),
        ...(options.stop === undefined ? {} : { stop: [...options.stop] }),
        ...withRecordedSets(options.body ?? {}),
        logprobs: true,
        return_token_ids: true,
      },
      { signal: options.signal },
    )
  }
}
