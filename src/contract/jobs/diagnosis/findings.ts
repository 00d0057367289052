/**
 * Why a job, or the last jobs of a model, did not teach what they should, and what to do: one table. A row is a condition over
 * numbers, what it says, and the next step. Job records, `result.warnings` of `trainyard/rl`, the command line and the page all read it.
 *
 * Thresholds were set with runs of the built-in model, 20 prompts with 8 answers a job, on the tasks of `src/docs/internals/learning.md` ("order",
 * "larger"); what they showed stands at each. A row must be silent in a run that learns. Rows read figures of reports
 * (`answerFacts`, the worker's) and metrics of checkpoints, and know no wire form and no model.
 */
import { maxOf } from '#base/util/lists.js'
import {
  fallOf,
  isAllLeast,
  isNearBest,
  isSolved,
  type JobNumbers,
  lowerRate,
  mayBeSolved,
  meanOf,
  percent,
  rangeOf,
  short,
  stuck,
  trustRegionOf,
} from './course.js'
import type { Row } from './finding.js'
import { FIT_ROWS } from './fit-findings.js'
import { REWARD_ROWS } from './reward-findings.js'

/** Least steps before a habit of theirs is worth a sentence. */
const MIN_STEPS = 4
const MIN_KL_STEPS = 8
/**
 * Divergence that a job may have where nothing bounds it, nats per token: it starts at 0, so that it rises is no news, and two
 * jobs that learned moved by 0.15 to 0.9.
 */
const NOTABLE_KL = 0.5
/** The limit of RL is 0.1 and norms of 1 to 17 are ordinary in runs that learn, but never this high in every step. */
const HIGH_NORM = 5
/** At the default rate runs that learn shorten most of their updates to a half or a quarter; 8e-3, eight times it, to a sixteenth. */
const MUCH_SHORTENED = 1 / 8
/** Share of tokens outside the clip range; at most 0.023 in runs that learned. */
const MANY_CLIPPED = 0.2
/** Jobs in turn without a step, before that is said of them together. */
const IDLE_JOBS = 2
/** Jobs that must agree before a reward counts as stuck, and before it does although the policy moves. */
const [STUCK_JOBS, STUCK_MOVING_JOBS] = [3, 5]
/** Nats per token moved by two jobs: 4e-5 at 5e-6, 0.004 at 5e-5 (neither learned), 0.15 at 2e-4 (rises from its third job), 0.9 at 1e-3. */
const [LITTLE_MOVED, ENOUGH_MOVED] = [0.02, 0.1]
/** Steps of two jobs: "order" learned within 9 to 28, "larger", whose first jobs make one to three, rose after about ten. */
const FEW_STEPS = 10
/** Rise of the training reward, of its range, that the held-out one should share in; words backwards: 0.38 to 0.92 against 0.41 to 0.36. */
const [NOTABLE_RISE, HELD_OUT_RISE] = [0.2, 0.05]
/** Fall of the entropy over three jobs; "larger" fell from 0.88 to 0.45 while it learned, runs that fell to 0 were at a tenth. */
const ENTROPY_LEFT = 0.2
/** Share of a label among all answers, when it was there and when it is gone. */
const [LABEL_WAS, LABEL_IS] = [0.1, 0.01]

/** Share of the sampled tokens whose distribution nobody can compute, before that is said. */
const NOTABLE_UNMODELLED = 0.01

function samplingOf({ facts }: JobNumbers): Readonly<Record<string, number>> {
  return facts['sampling'] ?? {}
}

/** Every finding, the most urgent first. */
export const FINDINGS: readonly Row[] = [
  ...REWARD_ROWS,
  {
    name: 'answers_greedy',
    about: 'job',
    when: ({ job }) => {
      const { tokens = 0, greedy = 0 } = samplingOf(job)
      if (greedy === 0) return null
      return {
        says: `${greedy} of ${tokens} sampled tokens were drawn at temperature 0, where one answer has all of the probability: they teach nothing`,
        next: 'sample at temperature 1, or with sampling_ratio raw train the model as if it had been',
      }
    },
  },
  {
    name: 'sampling_unmodelled',
    about: 'job',
    when: ({ job }) => {
      const { tokens = 0, unmodelled = 0 } = samplingOf(job)
      if (unmodelled === 0 || unmodelled < NOTABLE_UNMODELLED * tokens) return null
      const named = Object.entries(job.facts['unmodelled'] ?? {}).map(([name, count]) => `${name} (${count} tokens)`)
      return {
        says: `${unmodelled} of ${tokens} sampled tokens were drawn by rules that temperature and recorded sets do not say: ${named.join(', ')}; their ratio is 1, and what was sampled is not quite what is trained`,
        next: 'sample without them; top_p and min_p are followed where top_k is at most 512',
      }
    },
  },
  {
    name: 'sampling_unknown',
    about: 'job',
    when: ({ job }) => {
      const { tokens = 0, unknown = 0 } = samplingOf(job)
      if (unknown === 0) return null
      return {
        says: `${unknown} of ${tokens} sampled tokens were drawn at another temperature than that of their log-probabilities, and not from the weights that the job starts from: their ratio is 1`,
        next: 'keep the sampling of each choice as the service answers it (its logprobs are those of the temperature), or train on answers of the latest step that say initial_policy_version',
      }
    },
  },
  {
    name: 'sampling_ignored',
    about: 'job',
    when: ({ job }) => {
      const { tokens = 0, ignored = 0 } = samplingOf(job)
      if (ignored === 0) return null
      return {
        says: `${ignored} of ${tokens} sampled tokens say that they were not drawn at temperature 1 from the whole vocabulary, and sampling_ratio raw trains them as if they had been`,
        next: 'leave sampling_ratio out to train the distribution that was sampled',
      }
    },
  },
  {
    name: 'gradient_clipped',
    about: 'job',
    when: ({ job }) => {
      const { steps = 0, clipped = 0, least_norm: least = 0 } = job.facts['gradient'] ?? {}
      if (steps < MIN_STEPS || clipped < steps || least < HIGH_NORM) return null
      return {
        says: `gradient clipped in every one of ${steps} steps (its norm never below ${short(least)}): only its direction counts`,
        next: 'lower learning_rate, and look at the data: they are far from what the model says',
      }
    },
  },
  {
    name: 'updates_shortened',
    about: 'job',
    when: ({ job }) => {
      const { updates = 0, shortened = 0, smallest_scale: smallest = 1, target_kl: target = 0 } = trustRegionOf(job)
      if (updates < MIN_STEPS || 2 * shortened < updates || smallest > MUCH_SHORTENED) return null
      return {
        says: `${shortened} of ${updates} updates were shortened, the shortest to ${smallest}, to move the policy by at most ${target} nats per token (target_kl)`,
        next: 'a lower learning_rate does the same in even steps',
      }
    },
  },
  {
    name: 'kl_rising',
    about: 'job',
    when: ({ job }) => {
      const { steps = 0, first_quarter: first = 0, last_quarter: last = 0 } = job.facts['kl'] ?? {}
      const { target_kl: bound = 0 } = trustRegionOf(job)
      if (steps < MIN_KL_STEPS || last <= Math.max(NOTABLE_KL, 2 * bound) || last <= 2 * first) return null
      return {
        says: `KL rising: the divergence from the sampler went from ${first.toPrecision(2)} to ${last.toPrecision(2)} within the job`,
        // within a job nothing tells a policy that learns from one that drifts
        next: 'where the reward of the next job has not risen: lower the rate or train on fewer trajectories at once',
      }
    },
  },
  {
    name: 'tokens_clipped',
    about: 'job',
    when: ({ job }) => {
      const share = job.metrics['loss/clipped_token_fraction'] ?? 0
      if (share < MANY_CLIPPED) return null
      return {
        says: `${percent(share)} of the tokens lay outside the clip range: the policy was far from the one that sampled them`,
        next: 'sample anew more often (smaller jobs, fewer passes over one rollout), or lower learning_rate',
      }
    },
  },
  ...FIT_ROWS,
  {
    name: 'moved_too_far',
    about: 'course',
    when: (course) => {
      const { job, earlier } = course
      const fall = fallOf(course)
      if (fall === null) return null
      const { best, was, is, moved } = fall
      const [from, now] = [(best.step ?? 1) - 1, earlier.at(-1)?.step ?? 1]
      const far = moved === null ? '' : `, while jobs moved the policy by ${short(moved)} nats per token`
      const rate =
        job.learningRate === null ? 'a third of the learning_rate' : `learning_rate ${lowerRate(job.learningRate)}`
      const balance = (job.advantageBalance ?? 1) < 1 ? ' with advantage_balance 1' : ''
      return {
        says: `moved too far: the reward fell from ${short(was)} (answers of step ${from}) to ${short(is)} (of step ${now})${far}`,
        next: `train from step ${from} at ${rate}${balance}: models create --from-checkpoint <model>:step${from} begins there`,
      }
    },
  },
  {
    name: 'rate_too_small',
    about: 'course',
    when: (course) => {
      const window = stuck(course, STUCK_JOBS)
      if (window === null || window.moved === null || window.moved >= LITTLE_MOVED) return null
      // an update's divergence grows with the square of its length
      const factor = Math.sqrt(ENOUGH_MOVED / Math.max(window.moved, 1e-7))
      const by = factor < 2 ? 'twice' : `about ${Number(factor.toPrecision(1))} times`
      return {
        says: `${window.said}, and the jobs before moved the policy by ${short(window.moved)} nats per token, where ${ENOUGH_MOVED} is seen in the reward`,
        next: `raise learning_rate ${by} (the movement grows with its square)`,
      }
    },
  },
  {
    name: 'too_few_steps',
    about: 'course',
    when: (course) => {
      const window = stuck(course, STUCK_JOBS)
      if (window === null || window.steps >= FEW_STEPS || (window.moved ?? 1) < LITTLE_MOVED) return null
      // over more jobs there were enough, and that is said below
      if ((stuck(course, STUCK_MOVING_JOBS)?.steps ?? 0) >= FEW_STEPS) return null
      return {
        says: `${window.said}, after ${window.steps} gradient step${window.steps === 1 ? '' : 's'} in the jobs before`,
        next: 'sample more prompts a job until enough groups differ (rollout --until-trainable), more answers to each, or go on for some jobs',
      }
    },
  },
  {
    name: 'reward_stuck',
    about: 'course',
    when: (course) => {
      const window = stuck(course, STUCK_MOVING_JOBS)
      if (window === null || window.steps < FEW_STEPS || (window.moved ?? 1) < LITTLE_MOVED) return null
      const moved = window.moved === null ? '' : `, and moved the policy by ${short(window.moved)} nats per token`
      return {
        says: `${window.said}, although the jobs before made ${window.steps} gradient steps${moved}`,
        next: 'look at the answers (eval --show 5) for a shortcut that earns this much; a finer reward, or a few examples (train sft), shows the way on',
      }
    },
  },
  {
    name: 'no_steps',
    about: 'course',
    when: ({ job, earlier }) => {
      const jobs = [...earlier, job]
      const idle = jobs.length - 1 - jobs.findLastIndex(({ gradientSteps }) => gradientSteps > 0)
      // a job that still runs has made none yet
      if (job.step === null || idle < IDLE_JOBS || isSolved(job)) return null
      return {
        says: `the last ${idle} jobs made no gradient step: the model is as it was before them`,
        next: 'other prompts, a finer reward or examples (train sft) make groups differ; the same prompts again do not',
      }
    },
  },
  {
    name: 'held_out_behind',
    about: 'course',
    when: ({ job, earlier }) => {
      const measured = [...earlier, job].filter(
        ({ metrics }) => metrics['train/reward'] !== undefined && metrics['val/reward'] !== undefined,
      )
      const [first, last] = [measured[0]?.metrics, measured.at(-1)?.metrics]
      if (measured.length < 3 || first === undefined || last === undefined) return null
      const rise = (name: string): number => (last[name] ?? 0) - (first[name] ?? 0)
      const range = maxOf([...earlier, job].map(rangeOf), 0) || 1
      if (rise('train/reward') < NOTABLE_RISE * range || rise('val/reward') >= HELD_OUT_RISE * range) return null
      const from = (name: string): string => `from ${short(first[name] ?? 0)} to ${short(last[name] ?? 0)}`
      return {
        says: `the reward of training rose ${from('train/reward')}, that of held-out prompts went ${from('val/reward')}: what is learned does not carry over`,
        next: 'train on more different prompts, keep the step that was best (checkpoints delete --keep best:val/reward), and look at held-out answers (eval --show 5)',
      }
    },
  },
  {
    name: 'answers_alike',
    about: 'course',
    when: ({ job, earlier }) => {
      const { total = 0, distinct = 1 } = job.facts['answers'] ?? {}
      const groups = job.facts['groups']?.['total'] ?? 0
      // 1.5 different answers to a prompt
      if (total === 0 || total < 3 * groups || distinct > (1.5 * groups) / total) return null
      if (isAllLeast(job) || isNearBest(job, earlier)) return null
      return {
        says: `answers to a prompt are all alike (${short((distinct * total) / groups)} different ones of ${Math.round(total / groups)}), at a mean reward of ${short(meanOf(job) ?? 0)}`,
        next: 'go back to an earlier step with a lower learning_rate, sample at a higher temperature, or show a few other good answers (train sft)',
      }
    },
  },
  {
    name: 'entropy_fell',
    about: 'course',
    when: ({ job, earlier }) => {
      const [before] = earlier.slice(-3)
      const [was, is] = [before?.metrics['loss/entropy'], job.metrics['loss/entropy']]
      if (earlier.length < 3 || was === undefined || is === undefined || is > ENTROPY_LEFT * was) return null
      if (isNearBest(job, earlier)) return null
      return {
        says: `entropy fell from ${short(was)} to ${short(is)} nats per token over three jobs, at a mean reward of ${short(meanOf(job) ?? 0)}: soon there is nothing left to compare`,
        next: 'lower learning_rate, go on from an earlier step, or pay for what is still missing in the answers',
      }
    },
  },
  {
    name: 'label_forgotten',
    about: 'course',
    when: ({ job, earlier }) => {
      const now = job.facts['labels']
      if (now === undefined || mayBeSolved(job)) return null
      for (const before of [...earlier].reverse()) {
        const forgotten = Object.entries(before.facts['labels'] ?? {}).filter(
          ([label, share]) => share >= LABEL_WAS && (now[label] ?? 0) < LABEL_IS,
        )
        const [label, share] = forgotten[0] ?? []
        if (label === undefined || share === undefined) continue
        return {
          says: `the answer ${JSON.stringify(label)} is forgotten: right in ${percent(share)} of the answers of the job that made step ${before.step}, now in ${percent(now[label] ?? 0)}`,
          next: 'put prompts of every label into each job, lower learning_rate, and show a few examples of it (train sft)',
        }
      }
      return null
    },
  },
]
