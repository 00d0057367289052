/**
 * What a step came to, as data of its event: the names are those of OpenAI's reinforcement jobs, exactly, and what there is not
 * is left out; our own numbers follow.
 */
import type { JsonObject } from '#base/util/json.js'
import type { TokenUsage } from '#plugins/graders/grading/model-grader.js'
import type { Grader } from '#plugins/graders/grading/spec.js'
import { mean } from '#sdk/rl/trajectory.js'
import { type GradedAnswer, partsOfGrader } from './grading.js'

/** Means over answers, as a process stores them for those after it. */
export interface Facts {
  readonly answers: number
  /** Null: there was no answer with a score. */
  readonly reward: number | null
  readonly completionTokens: number
  readonly unresponsive: number
  readonly parseErrors: number
  readonly latency: number
  readonly tokens: Readonly<Record<string, TokenUsage>>
  /** Of those the tokens that were asked for now: what is remembered costs nothing. A step of before may not say it. */
  readonly paid?: Readonly<Record<string, TokenUsage>>
  readonly graders: readonly {
    readonly name: string
    readonly type: string
    readonly model: string | null
    readonly reward: number
    /** By flag. */
    readonly errors: Readonly<Record<string, number>>
  }[]
}

/** Errors that events count, without `_error`. */
const COUNTED = [
  'sample_parse',
  'invalid_variable',
  'other',
  'python_grader_server',
  'python_grader_runtime',
  'model_grader_server',
] as const

const has = ({ graded }: GradedAnswer, flag: string): boolean => graded.errors.some((error) => error.flag === flag)
const average = (values: readonly number[]): number => mean(values) ?? 0

export function factsOf(grader: Grader, answers: readonly GradedAnswer[]): Facts {
  const scored = answers.filter((answer) => !has(answer, 'unresponsive_reward_error'))
  const count = (flag: string): number => answers.filter((answer) => has(answer, flag)).length
  return {
    answers: answers.length,
    reward: mean(scored.map(({ graded }) => graded.reward)),
    completionTokens: average(answers.map(({ completionTokens }) => completionTokens)),
    unresponsive: count('unresponsive_reward_error'),
    parseErrors: count('sample_parse_error'),
    latency: average(answers.map(({ seconds }) => seconds)),
    tokens: sumTokens(answers),
    paid: sumTokens(answers.filter(({ wasKnown }) => !wasKnown)),
    graders: partsOfGrader(grader).map(({ key, name, type, model }) => {
      const errors: Record<string, number> = {}
      for (const error of answers.flatMap(({ graded }) => graded.errors.filter((each) => each.grader === name))) {
        errors[error.flag] = (errors[error.flag] ?? 0) + 1
      }
      const reward = average(scored.map(({ graded }) => (key === null ? graded.reward : (graded.parts[key] ?? 0))))
      return { name, type, model, reward, errors }
    }),
  }
}

/** By model. */
function sumTokens(answers: readonly GradedAnswer[]): Readonly<Record<string, TokenUsage>> {
  const tokens: Record<string, TokenUsage> = {}
  for (const { graded } of answers) {
    for (const [model, used] of Object.entries(graded.usage)) {
      const sum = tokens[model] ?? { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0 }
      tokens[model] = sum
      sum.prompt_tokens += used.prompt_tokens
      sum.completion_tokens += used.completion_tokens
      sum.cached_tokens += used.cached_tokens
    }
  }
  return tokens
}

/** Tokens of graders, prompts and answers together, of answers that were not graded before. */
export function graderTokensOf(answers: readonly GradedAnswer[]): number {
  const used = answers.filter(({ wasKnown }) => !wasKnown).flatMap(({ graded }) => Object.values(graded.usage))
  return used.reduce((sum, usage) => sum + usage.prompt_tokens + usage.completion_tokens, 0)
}

/** Seconds of a step's phases. */
interface StepTimes {
  readonly sampling?: number
  readonly training?: number
  readonly eval?: number
  readonly full_iteration?: number
}

/** @param train null: of the evaluation before the first step @param valid null: nothing was evaluated */
export function metricsData(
  grader: Grader,
  at: { readonly step: number; readonly totalSteps: number; readonly times: StepTimes; readonly own: JsonObject },
  train: Facts | null,
  valid: Facts | null,
): JsonObject {
  const sides = [
    ['train', train],
    ['valid', valid],
  ] as const
  /** Fields of both sides, as far as they are there. */
  const both = (fields: (side: string, facts: Facts) => JsonObject): JsonObject =>
    Object.fromEntries(sides.flatMap(([side, facts]) => (facts === null ? [] : Object.entries(fields(side, facts)))))
  const graders = (fields: (side: string, facts: Facts, i: number) => JsonObject): JsonObject[] =>
    partsOfGrader(grader).map(({ name, type }, i) => ({ name, type, ...both((side, facts) => fields(side, facts, i)) }))
  const rewardOf = (facts: Facts | null): number | null => facts?.reward ?? null
  return {
    step: at.step,
    total_steps: at.totalSteps,
    ...(rewardOf(train) === null ? {} : { train_mean_reward: rewardOf(train) }),
    ...(rewardOf(valid) === null ? {} : { full_valid_mean_reward: rewardOf(valid) }),
    ...(valid === null ? {} : { full_valid_mean_parse_error: valid.parseErrors / Math.max(1, valid.answers) }),
    ...(train === null
      ? {}
      : {
          mean_unresponsive_rewards: train.unresponsive / Math.max(1, train.answers),
          completion_tokens_mean: train.completionTokens,
        }),
    model_graders_token_usage: tokensByModel(train, valid),
    scores: {
      ...both((side, { reward }) => (reward === null ? {} : { [`${side}_reward_mean`]: reward })),
      graders: graders((side, facts, i) => ({ [`${side}_reward_mean`]: facts.graders[i]?.reward ?? 0 })),
    },
    usage: { graders: usageOfGraders(grader, both) },
    errors: {
      graders: graders((side, facts, i) => errorsOf(side, facts.answers, facts.graders[i]?.errors ?? {})),
    },
    timing: {
      step: { ...at.times },
      graders: [
        {
          name: grader.name,
          type: grader.type,
          ...both((side, { latency }) => ({ [`${side}_execution_latency_mean`]: latency })),
        },
      ],
    },
    ...at.own,
  }
}

function tokensByModel(train: Facts | null, valid: Facts | null): JsonObject {
  const models = new Set([train, valid].flatMap((facts) => Object.keys(facts?.tokens ?? {})))
  const side = (name: string, used: TokenUsage | undefined): JsonObject =>
    used === undefined
      ? {}
      : {
          [`${name}_prompt_tokens`]: used.prompt_tokens,
          [`${name}_completion_tokens`]: used.completion_tokens,
          [`${name}_cached_tokens`]: used.cached_tokens,
        }
  const entries = [...models].map((model) => [
    model,
    { ...side('train', train?.tokens[model]), ...side('eval', valid?.tokens[model]) },
  ])
  return Object.fromEntries(entries) as JsonObject
}

/** Tokens by grader, of graders whose model no other one asks: they are counted by model. */
function usageOfGraders(
  grader: Grader,
  both: (fields: (side: string, facts: Facts) => JsonObject) => JsonObject,
): JsonObject[] {
  const parts = partsOfGrader(grader)
  return parts.flatMap(({ name, type, model }) => {
    if (model === null || parts.filter((each) => each.model === model).length > 1) return []
    const tokens = both((side, { tokens: used, answers }) => {
      const [prompt, completion] = [used[model]?.prompt_tokens ?? 0, used[model]?.completion_tokens ?? 0]
      return {
        [`${side}_prompt_tokens_mean`]: prompt / Math.max(1, answers),
        [`${side}_prompt_tokens_count`]: prompt,
        [`${side}_completion_tokens_mean`]: completion / Math.max(1, answers),
        [`${side}_completion_tokens_count`]: completion,
      }
    })
    return [{ name, type, model, ...tokens }]
  })
}

function errorsOf(side: string, answers: number, errors: Readonly<Record<string, number>>): JsonObject {
  const entries = COUNTED.flatMap((kind) => {
    const count = errors[`${kind}_error`] ?? 0
    return [
      [`${side}_${kind}_error_mean`, count / Math.max(1, answers)],
      [`${side}_${kind}_error_count`, count],
    ]
  })
  return Object.fromEntries(entries) as JsonObject
}
