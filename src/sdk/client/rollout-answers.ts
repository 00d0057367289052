/**
 * What the client needs of answers about what a job trained on. As `answers.ts`.
 */
import type { SamplingRecord } from '#contract/wire/sampling-record.js'
import type {
  RolloutGroup,
  RolloutGroupDetail,
  RolloutGroupList,
  RolloutScores,
  RolloutTokens,
  RolloutTrajectory,
  Spread,
} from '#contract/wire/training/rollouts.js'
import { anything, listOf, mapOf, maybe, number, objectOf, text, truth } from './shape.js'

const spread = maybe(objectOf<NonNullable<Spread>>({ min: number, max: number, mean: number }))
const clip = objectOf<RolloutTokens['clip']>({ low: maybe(number), high: maybe(number) })
const groupFields = {
  id: text,
  object: anything,
  index: number,
  prompt_preview: text,
  trajectories: number,
  exceptions: number,
  trained: number,
  mean_reward: maybe(number),
  reward_std_dev: maybe(number),
  reward: spread,
  advantage: spread,
  tokens: spread,
  entropy: maybe(number),
  cut_off: number,
  left_out: maybe(text),
}
const memberFields = {
  index: number,
  reward: number,
  shaped_reward: number,
  advantage: maybe(number),
  weight: maybe(number),
  left_out: maybe(text),
  tokens: number,
  entropy: maybe(number),
  cut_off: truth,
  metrics: mapOf(number),
  metadata: mapOf(anything),
  initial_policy_version: maybe(number),
  final_policy_version: maybe(number),
}

export const rolloutGroups = objectOf<RolloutGroupList>({
  object: anything,
  data: listOf(objectOf<RolloutGroup>(groupFields)),
  first_id: maybe(text),
  last_id: maybe(text),
  has_more: truth,
  histogram: listOf(objectOf<RolloutGroupList['histogram'][number]>({ from: number, to: number, count: number })),
  group_count: number,
  trajectory_count: number,
  trained_count: number,
  zero_advantage_count: maybe(number),
  failures: maybe(listOf(objectOf<RolloutGroupList['failures'][number]>({ type: text, count: number }))),
  environments: maybe(listOf(objectOf<RolloutGroupList['environments'][number]>({ name: text, groups: number }))),
  unnoted_count: number,
  // older servers do not count them
  untrained_count: maybe(number),
  clip,
  parent_step: number,
  kept_until: maybe(text),
})

export const rolloutGroup = objectOf<RolloutGroupDetail>({
  ...groupFields,
  metadata: mapOf(anything),
  metrics: mapOf(number),
  failed: listOf(objectOf<RolloutGroupDetail['failed'][number]>({ type: text, message: text })),
  members: listOf(objectOf<RolloutGroupDetail['members'][number]>({ ...memberFields, answer: text })),
})

type Turn = RolloutTrajectory['histories'][number]['messages'][number]
export const rolloutTrajectory = objectOf<RolloutTrajectory>({
  ...memberFields,
  id: text,
  object: anything,
  training_job_id: maybe(text),
  group: number,
  group_size: number,
  histories: listOf(
    objectOf<RolloutTrajectory['histories'][number]>({
      messages: listOf(objectOf<Turn>({ message: mapOf(anything), is_sampled: truth, finish_reason: maybe(text) })),
      tools: maybe(listOf(mapOf(anything))),
    }),
  ),
  sequences: listOf(
    objectOf<RolloutTrajectory['sequences'][number]>({
      index: number,
      gradient_step: number,
      length: number,
      trained: number,
    }),
  ),
})

const rangeFields = { group: number, trajectory: number, sequence: number, length: number, from: number, to: number }
const numbers = listOf(maybe(number))

export const rolloutTokens = objectOf<RolloutTokens>({
  object: anything,
  ...rangeFields,
  gradient_step: number,
  advantage: maybe(number),
  weight: maybe(number),
  clip,
  ids: listOf(number),
  texts: listOf(maybe(text)),
  bytes: listOf(maybe(text)),
  is_control: listOf(truth),
  is_trained: listOf(truth),
  sampler_logprob: numbers,
  old_logprob: numbers,
  learner_logprob: numbers,
  ratio: numbers,
  is_clipped: listOf(truth),
  entropy: numbers,
  reference_logprob: numbers,
  temperature: maybe(numbers),
  kept: maybe(numbers),
})

export const rolloutScores = objectOf<RolloutScores>({
  object: anything,
  ...rangeFields,
  step: number,
  system_fingerprint: maybe(text),
  logprob: numbers,
})

export const deletedTrainingData = objectOf<{
  readonly id: string
  readonly object: 'training_job.data'
  readonly deleted: boolean
}>({ id: text, object: anything, deleted: truth })

/** How an answer was sampled, beside its token ids. */
export const sampling = maybe(
  objectOf<SamplingRecord>({
    temperature: number,
    top_p: number,
    top_k: number,
    min_p: number,
    logprobs: maybe(listOf(number)),
    kept: objectOf<SamplingRecord['kept']>({ counts: listOf(number), ids: listOf(number) }),
    unmodelled: listOf(text),
  }),
)
