/**
 * On-policy distillation: a model answers by itself, and a teacher that the same service serves says of each token how likely it finds it.
 *
 * The reverse divergence from the teacher, E_student[Σ log p_student − log p_teacher], falls along the policy gradient whose advantage is, for each
 * token by itself, A_t = log p_teacher(y_t) − log p_student(y_t) (Agarwal et al., arXiv:2306.13649; Gu et al., arXiv:2306.08543, with the
 * return of a token cut after that token, as Thinking Machines Lab's "On-Policy Distillation" has it). The loss is importance sampling over a
 * training session's rows, divided by their tokens. Knows no rewards.
 */
import { AppError } from '#base/errors/errors.js'
import { append } from '#base/util/lists.js'
import { sizeDefaults } from '#contract/jobs/size-defaults.js'
import type { Client } from '#sdk/client/client.js'
import { parametersOf } from '#sdk/client/model-size.js'
import type { Message } from '#sdk/rl/trajectory.js'
import { sayOfDistillation } from './diagnose.js'
import type { TrainableModel } from './model.js'
import type { TrainingSession } from './session.js'
import type { SavedCheckpoint } from './session-options.js'

export interface DistillOptions {
  /** What the service calls it: a base model, or `inferenceName()` of a model. It needs the tokens of the student's base model. */
  readonly teacher: string
  /** Updates, default 20. */
  readonly steps?: number
  /** Prompts of an update, default 16, the next of the list each time. */
  readonly promptsPerStep?: number
  /** Answers to each, default 4. */
  readonly samples?: number
  /** Longest answer, tokens; default 256. */
  readonly maxTokens?: number
  /** Default: that of a reinforcement learning job for a base model of this size. */
  readonly learningRate?: number
  readonly seed?: number
  readonly onStep?: (step: DistillStep) => void
  readonly signal?: AbortSignal
}

export interface DistillStep {
  /** From 1. */
  readonly step: number
  /** Estimate of the reverse divergence before the update: mean of log p_student − log p_teacher over sampled tokens, nats. */
  readonly kl: number
  /** Sampled tokens. */
  readonly tokens: number
  readonly gradientNorm: number
}

/** A gradient longer than this says no more than its direction, as in reinforcement learning jobs. */
const MAX_GRADIENT_NORM = 1
/** What counts where options say nothing. */
export const DISTILL_DEFAULTS = { steps: 20, promptsPerStep: 16, samples: 4, maxTokens: 256 }
/** Prompts whose tokens are compared before anything is trained. */
const COMPARED = 8
/** Answers that the teacher reads side by side. */
const SIDE_BY_SIDE = 16
/** Rate of models of a size nobody measured: the published default. */
const PUBLISHED_RATE = 5e-6

/**
 * Moves a model towards its teacher on the model's own answers, and saves it as the model's next checkpoint.
 *
 * A student that knows nothing of what its teacher says comes no nearer by its own answers: `warnings` says so, and examples come first.
 *
 * @returns the checkpoint, what each update measured, and what they say together
 * @throws {AppError} `tokenizers_differ` where teacher and student have other tokens; what a training session throws
 */
export async function distillOnPolicy(
  model: TrainableModel,
  prompts: readonly (readonly Message[])[],
  options: DistillOptions,
): Promise<SavedCheckpoint & { readonly steps: readonly DistillStep[]; readonly warnings: readonly string[] }> {
  const { client } = model
  const { teacher, signal, onStep } = options
  const { steps: count, promptsPerStep, samples, maxTokens } = { ...DISTILL_DEFAULTS, ...defined(options) }
  if (prompts.length === 0) throw new AppError('invalid_request', 'no_prompts', 'there is no prompt to answer')
  const learningRate = options.learningRate ?? (await rateOf(model, signal))
  await assertSameTokens(client, { teacher, student: model.options.baseModel, prompts, signal })
  const session = await model.session(signal === undefined ? {} : { signal })
  try {
    const steps: DistillStep[] = []
    for (let step = 1; step <= count; step += 1) {
      signal?.throwIfAborted()
      const batch = Array.from(
        { length: Math.min(promptsPerStep, prompts.length) },
        (_, i) => prompts[((step - 1) * promptsPerStep + i) % prompts.length] ?? [],
      )
      const seed = options.seed === undefined ? undefined : options.seed + step * 100_003
      const rows = (await Promise.all(batch.map((each, i) => answersTo(session, each, i)))).flat()
      const said = await inTurn(rows, (row) => teacherLogprobs(client, teacher, { ...row, signal }))
      const tokens = rows.reduce((sum, row) => sum + row.tokens.length, 0)
      const differences = rows.map((row, i) => row.logprobs.map((logp, t) => (said[i]?.[t] ?? logp) - logp))
      const [, { gradientNorm }] = await Promise.all([
        session.forwardBackward(
          rows.map((row, i) => ({ ...row, advantages: (differences[i] ?? []).map((each) => each / tokens) })),
          'importance_sampling',
        ),
        session.optimStep({ learningRate, maxGradientNorm: MAX_GRADIENT_NORM }),
      ])
      const kl = -differences.flat().reduce((sum, each) => sum + each, 0) / tokens
      steps.push({ step, kl, tokens, gradientNorm })
      onStep?.({ step, kl, tokens, gradientNorm })

      async function answersTo(from: TrainingSession, messages: readonly Message[], i: number) {
        const prompt = await from.encode(messages)
        const seeded = seed === undefined ? {} : { seed: seed + i * 1009 }
        const answers = await from.sample(prompt, { n: samples, maxTokens, ...seeded })
        return answers.filter((answer) => answer.tokens.length > 0).map((answer) => ({ ...answer, prompt }))
      }
    }
    return { ...(await session.save()), steps, warnings: sayOfDistillation(steps.map(({ kl }) => kl)) }
  } finally {
    await session.close()
  }
}

/** Log-probabilities that a served model gives to tokens after a prompt. @returns [N], nats */
async function teacherLogprobs(
  client: Client,
  teacher: string,
  row: {
    readonly prompt: readonly number[]
    readonly tokens: readonly number[]
    readonly signal: AbortSignal | undefined
  },
): Promise<readonly number[]> {
  const { prompt, tokens, signal } = row
  const request = { model: teacher, prompt: [...prompt, ...tokens], max_tokens: 1, prompt_logprobs: 0, temperature: 0 }
  const { choices } = await client.completions.create(request, { signal })
  const positions = choices[0]?.prompt_logprobs ?? []
  return tokens.map((id, t) => {
    const logprob = positions[prompt.length + t]?.[String(id)]?.logprob
    if (logprob !== undefined) return logprob
    throw new AppError('internal', 'unexpected_response', `the teacher ${teacher} says nothing of token ${id}`)
  })
}

/** @throws {AppError} `tokenizers_differ` */
async function assertSameTokens(
  client: Client,
  asked: {
    readonly teacher: string
    readonly student: string
    readonly prompts: readonly (readonly Message[])[]
    readonly signal: AbortSignal | undefined
  },
): Promise<void> {
  const { teacher, student, signal } = asked
  for (const messages of asked.prompts.slice(0, COMPARED)) {
    const prompt = messages.map(({ content }) => (typeof content === 'string' ? content : '')).join('\n')
    const [theirs, ours] = await Promise.all(
      [teacher, student].map((model) => client.text.tokenize({ model, prompt }, { signal })),
    )
    if (String(theirs?.tokens) === String(ours?.tokens)) continue
    throw new AppError(
      'invalid_request',
      'tokenizers_differ',
      `the teacher ${teacher} reads other tokens than ${student}: its log-probabilities say nothing of this model's tokens`,
      { hint: 'a teacher of the same family, or its answers as examples (without on-policy)' },
    )
  }
}

async function rateOf(model: TrainableModel, signal: AbortSignal | undefined): Promise<number> {
  const parameters = await parametersOf(model.client, model.options.baseModel, { signal })
  return sizeDefaults('rl', {}, parameters)['learning_rate'] ?? PUBLISHED_RATE
}

/** So many at a time, answers in the order of the items. */
async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = []
  for (let start = 0; start < items.length; start += SIDE_BY_SIDE) {
    append(results, await Promise.all(items.slice(start, start + SIDE_BY_SIDE).map(work)))
  }
  return results
}

/** Without what is undefined, which would hide a default. */
function defined(options: DistillOptions): Partial<DistillOptions> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}
