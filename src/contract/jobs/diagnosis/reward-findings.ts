/**
 * Rows of the table of findings about what answers earned: nothing, the same everywhere, all there is.
 *
 * Whether a reward is all there is follows from its range alone, which `exact`, `contains`, a module or a group says. The best
 * reward of a job is no range: where every answer earns 0.1 and one 0, that is the best, and little is learned. Without a range
 * no row says that a model is done.
 */
import { countFlat, isAllLeast, isSolved, type JobNumbers, mayBeSolved, percent, short, timesShown } from './course.js'
import type { Finding, Row } from './finding.js'

/** Runs from 0.2 to 0.99 within four jobs had 60 to 80% of groups equal; "larger" has 95% in its slow first jobs. */
const MOSTLY_FLAT = 0.9
/**
 * Share of cut-off answers; at most 0.1 in runs that learned, where twelve tokens are enough. From the second on the limit
 * comes first.
 */
const [MANY_CUT, MOSTLY_CUT] = [0.2, 0.5]
/**
 * Share of what can be earned below which rewards alone take long: "larger" had 0.037 once and learned, SmolLM2-135M began at
 * 0.016.
 */
const RARE = 0.025
/** Fewer answers do not tell rare from never or now and then. */
const RARE_ANSWERS = 32
/** Share of answers that call tools nobody offered. */
const MANY_UNOFFERED = 0.1

/** What makes groups differ. @param size answers to a prompt, on average */
const compare = (size: number): string =>
  `an answer is compared with the others of its group: ask more often than ${Math.round(size)} times, raise the temperature, take prompts that are solved sometimes, or a finer reward`
/** What follows where nothing is earned; what was shown once is not to be shown again as it was. */
const SHOW =
  'show it good answers first (train sft on examples of yours, train distill with a stronger model), or give a reward that knows steps between nothing and all; rewards come after that'
const SHOWN =
  'its examples did not teach that: compare its answers with the wanted ones (eval --show 5), show more and other examples, or give a reward that pays for the first step'
/** What follows where more of them did not help either. */
const SHOWN_AGAIN =
  'more examples did not teach that either: take a larger base model, or a reward that pays for the first step of an answer'
/** What follows where prompts have nothing more to teach. */
const MORE_PROMPTS = 'harder prompts, or, where held-out ones do worse, more different ones'
/** Asked where the range decides. */
const ASK_RANGE =
  'say what an answer can earn at most (--reward-range, max_reward of a group), and this says whether that is all'

const rewardOf = ({ facts }: JobNumbers) => facts['reward'] ?? {}
const answersOf = ({ facts }: JobNumbers) => facts['answers'] ?? {}
const groupsOf = ({ facts }: JobNumbers): { readonly total: number; readonly flat: number } => ({
  total: facts['groups']?.['total'] ?? 0,
  flat: facts['groups']?.['flat'] ?? 0,
})

/** Nearly all answers were cut off, and did not earn everything all the same: whatever else they say is said of half answers. */
function isCutShort(job: JobNumbers): boolean {
  const { total = 0, cut = 0, cut_reward: cutReward = 0, whole_reward: whole = cutReward } = answersOf(job)
  return total > 0 && cut >= MOSTLY_CUT * total && cutReward <= whole && !isSolved(job)
}

/** Every answer earns the same, whoever is asked what. */
function isOneReward(job: JobNumbers): boolean {
  const { min, max } = rewardOf(job)
  return min !== undefined && min === max
}

/** So few answers earn so little that rewards alone take long. */
function isRare(job: JobNumbers): boolean {
  const { min, max = 0, mean = 0, share, least_share: least, most_share: most = 0 } = rewardOf(job)
  if ((answersOf(job)['total'] ?? 0) < RARE_ANSWERS) return false
  return share === undefined ? min === 0 && max > 0 && mean < RARE * max : least === 0 && most > 0 && share < RARE
}

const isMostlyFlat = (job: JobNumbers): boolean => {
  const { total, flat } = groupsOf(job)
  return total > 0 && flat >= MOSTLY_FLAT * total
}

/** So many equal answers with all there is are no chance. */
const isAllFull = (job: JobNumbers): boolean =>
  (answersOf(job)['total'] ?? 0) >= RARE_ANSWERS && rewardOf(job)['least_share'] === 1

/** @param first what is said before any examples */
function show(job: JobNumbers, first = SHOW): string {
  const times = timesShown(job)
  return times === 0 ? first : times === 1 ? SHOWN : SHOWN_AGAIN
}
/** @example 'after examples were shown in 2 jobs' */
const sayShown = (job: JobNumbers): string => {
  const times = timesShown(job)
  return times === 0 ? '' : ` after examples were shown${times === 1 ? '' : ` in ${times} jobs`}`
}
const worth = (value: number): number => Number(value.toPrecision(3))

export const REWARD_ROWS: readonly Row[] = [
  {
    name: 'answers_cut',
    about: 'job',
    when: ({ job }) => {
      const { total = 0, cut = 0, cut_at: at, cut_reward: cutReward = 0, whole_reward: whole } = answersOf(job)
      if (total === 0 || cut < MANY_CUT * total || isSolved(job)) return null
      if (!isCutShort(job) && (isAllLeast(job) || (whole !== undefined && cutReward >= whole))) return null
      const against = whole === undefined ? '' : `, ${short(whole)} of whole ones`
      return {
        says: `${cut} of ${total} answers were cut off at the length limit (mean reward ${short(cutReward)}${against})`,
        next: `raise the limit (--max-tokens, max_tokens)${at === undefined ? '' : ` above ${at} tokens`}, or let the reward prefer short answers`,
      }
    },
  },
  {
    name: 'tools_not_offered',
    about: 'job',
    when: ({ job }) => {
      const { total = 0, unoffered = 0 } = answersOf(job)
      if (unoffered === 0 || unoffered < MANY_UNOFFERED * total) return null
      return {
        says: `${unoffered} of ${total} answers call a tool that was not offered`,
        next: `offer the tools that the prompt speaks of (tools of the request, strict)${timesShown(job) === 0 ? ', or show it answers without calls' : '; examples did not end the calls, a reward that pays nothing for them does'}`,
      }
    },
  },
  {
    name: 'reward_zero',
    about: 'job',
    when: ({ job }) => {
      const { total, cut = 0 } = answersOf(job)
      const { max = 0, most_share: most } = rewardOf(job)
      if (total === undefined || !isAllLeast(job) || isCutShort(job)) return null
      const isCut = cut >= MANY_CUT * total && cut > 0 ? `, ${cut} of them cut off` : ''
      const shown = sayShown(job)
      const isUnknown = most === undefined && timesShown(job) === 0
      return {
        says: `reward ${worth(max)} everywhere${shown}: none of ${total} answers got any${isCut}, and what is never said cannot be rewarded${job.quoted}`,
        next: `${show(job)}${isUnknown ? '; where 0 is the best there is, say so (--reward-range, max_reward of a group)' : ''}`,
      }
    },
  },
  {
    name: 'reward_rare',
    about: 'job',
    when: ({ job }) => {
      const { max = 0, mean = 0 } = rewardOf(job)
      const { total = 0 } = answersOf(job)
      if (!isRare(job) || isCutShort(job)) return null
      const shown = sayShown(job)
      return {
        says: `reward nearly nowhere${shown}: a mean of ${short(mean)} over ${total} answers, where one alone earned ${short(max)}`,
        next: show(
          job,
          'show it good answers first (train sft on examples, or train distill with a stronger model): rewards raise what is right now and then',
        ),
      }
    },
  },
  {
    name: 'all_solved',
    about: 'job',
    when: ({ job }) => {
      if (!isAllFull(job)) return null
      const { max = 0 } = rewardOf(job)
      return {
        says: `every one of ${answersOf(job)['total']} answers earns ${worth(max)}: these prompts have nothing left to teach`,
        next: `stop here, take ${MORE_PROMPTS}, or give a reward that tells good answers from better ones`,
      }
    },
  },
  {
    name: 'one_reward',
    about: 'job',
    when: ({ job }) => {
      const { total = 0 } = answersOf(job)
      const { max = 0, share } = rewardOf(job)
      if (total < RARE_ANSWERS || !isOneReward(job) || isAllLeast(job) || isSolved(job) || isCutShort(job)) return null
      const of = share === undefined ? '' : `, ${percent(share)} of what can be earned`
      return {
        says: `every one of ${total} answers earns ${worth(max)}${of}, so none is compared with a better one${job.quoted}`,
        next: share === undefined ? `${ASK_RANGE}; if it is not, ${show(job)}` : show(job),
      }
    },
  },
  {
    name: 'no_group_differs',
    about: 'job',
    when: ({ job }) => {
      const { total: answers = 0 } = answersOf(job)
      // of many answers other rows say it
      const isSaid = isRare(job) || (answers >= RARE_ANSWERS && (isOneReward(job) || isSolved(job)))
      if (!isMostlyFlat(job) || isAllLeast(job) || isCutShort(job) || isSaid) return null
      const { mean = 0, share } = rewardOf(job)
      const { total, flat } = groupsOf(job)
      const asked = share === undefined && mayBeSolved(job) ? `${ASK_RANGE}; if it is not, ` : ''
      return {
        says: `${countFlat(flat, total, mean)}: they teach nothing${job.quoted}`,
        next: `${asked}${compare(answers / total)}`,
      }
    },
  },
  {
    name: 'nearly_solved',
    about: 'job',
    when: ({ job }): Omit<Finding, 'name'> | null => {
      if (!isMostlyFlat(job) || !isSolved(job) || isAllFull(job)) return null
      const { total, flat } = groupsOf(job)
      const { total: answers = 0 } = answersOf(job)
      const { mean = 0, share = 0 } = rewardOf(job)
      if (answers < RARE_ANSWERS) return null
      return {
        says: `${flat} of ${total} groups earn the same for every answer, nearly always all of it (mean reward ${short(mean)}, ${percent(share)} of what can be earned): little is left to learn`,
        next: `stop here, or take ${MORE_PROMPTS}`,
      }
    },
  },
]
