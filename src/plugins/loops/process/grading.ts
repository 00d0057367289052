/**
 * Grades answers side by side. What is arithmetic is done here; graders that ask a model or an endpoint, or are Python, are the
 * server's, which knows teachers, hosts and variables and has the walls, and what they say is remembered: each is asked once an
 * answer, also by a process that goes on where another was lost.
 */
import { createHash } from 'node:crypto'
import { stringifyExact } from '#base/json/exact-json.js'
import { modelsOf, sourcesOf, urlsOf } from '#plugins/graders/grading/check.js'
import { readFormula } from '#plugins/graders/grading/formula.js'
import { type Graded, grade } from '#plugins/graders/grading/grade.js'
import type { GradeError } from '#plugins/graders/grading/grade-errors.js'
import { answerOf, noteGraded } from '#plugins/graders/grading/grade-with.js'
import type { TokenUsage } from '#plugins/graders/grading/model-grader.js'
import { toSample } from '#plugins/graders/grading/sample.js'
import { type Grader, readGrader, type SingleGrader } from '#plugins/graders/grading/spec.js'
import type { Http } from '#sdk/client/http.js'
import { type RolloutException, type Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopStart } from '../messages.js'
import type { Link } from './link.js'
import type { LoopRow } from './rows.js'

/** Answers that are graded side by side. */
const AT_ONCE = 16
/** Digests of one question. */
const CHUNK = 500
/** Parts of a formula whose ends are tried together, 2 to the power of them. */
const MOST_PARTS = 10
/** What may be otherwise when it is asked again. */
const PASSING: readonly string[] = [
  ...['model_grader_server_error', 'python_grader_server_error', 'unresponsive_reward_error', 'other_error'],
]

/** One answer, graded. */
export interface GradedAnswer {
  readonly graded: Graded
  readonly seconds: number
  /** It was graded before, and cost nothing now. */
  readonly wasKnown: boolean
  readonly completionTokens: number
}

export interface GradedGroups {
  /** Answers that no grader gave a score became exceptions. */
  readonly groups: readonly TrajectoryGroup[]
  readonly answers: readonly GradedAnswer[]
}

export function createGrading(start: Pick<LoopStart, 'entity' | 'project' | 'spec'>, http: Http, link: Link) {
  const grader = readGrader(start.spec.grader)
  const isOutside = [modelsOf, urlsOf, sourcesOf].some((list) => list(grader).length > 0)

  /** By digest: what is asked, until the step's grades are complete. */
  const asking = new Map<string, Promise<Graded>>()

  function digestOf(trajectory: Trajectory, { item }: LoopRow): string {
    const of = [start.entity, start.project, start.spec.grader, item, answerOf(trajectory)]
    return createHash('sha256').update(stringifyExact(of)).digest('hex')
  }

  /** Asks the server, once for answers that are the same. */
  function askServer(trajectory: Trajectory, row: LoopRow, digest: string): Promise<Graded> {
    const asked = asking.get(digest) ?? askFor(trajectory, row, digest)
    asking.set(digest, asked)
    return asked
  }

  async function askFor(trajectory: Trajectory, row: LoopRow, digest: string): Promise<Graded> {
    const answer = await http.json<RunAnswer>({
      method: 'POST',
      path: '/v1/fine_tuning/alpha/graders/run',
      json: { grader: start.spec.grader, item: row.item, model_sample: answerOf(trajectory) },
      isLong: true,
      isRepeatable: true,
    })
    const graded = toGraded(answer)
    if (!graded.errors.some(({ flag }) => PASSING.includes(flag))) await link.remember(digest, graded)
    return graded
  }

  async function gradeOne(
    trajectory: Trajectory,
    row: LoopRow,
    { digest, known }: { readonly digest: string; readonly known: Graded | undefined },
  ): Promise<GradedAnswer> {
    const begunMs = performance.now()
    const wasKnown = known !== undefined || asking.has(digest)
    const graded =
      known ??
      (isOutside
        ? await askServer(trajectory, row, digest)
        : await grade(grader, { item: row.item, sample: toSample(answerOf(trajectory)) }))
    const completionTokens = trajectory.choices.reduce((sum, { token_ids: ids }) => sum + (ids?.length ?? 0), 0)
    return { graded, seconds: (performance.now() - begunMs) / 1000, wasKnown, completionTokens }
  }

  async function findKnown(digests: readonly string[]): Promise<Readonly<Record<string, Graded>>> {
    const found: Record<string, Graded> = {}
    for (let i = 0; i < digests.length; i += CHUNK) Object.assign(found, await link.grades(digests.slice(i, i + CHUNK)))
    return found
  }

  return {
    grader,
    best: bestReward(grader),
    /** Calls of endpoints that one answer costs. */
    endpointCalls: urlsOf(grader).length,
    /** @param rows of the groups, in their order */
    async grade(groups: readonly TrajectoryGroup[], rows: readonly LoopRow[]): Promise<GradedGroups> {
      const all = groups.flatMap(({ trajectories }, g) =>
        trajectories.map((trajectory) => ({ trajectory, row: rows[g] as LoopRow })),
      )
      const digests = isOutside ? all.map(({ trajectory, row }) => digestOf(trajectory, row)) : []
      const known = await findKnown([...new Set(digests)])
      const answers = await sideBySide(all.length, async (i) => {
        const { trajectory, row } = all[i] as (typeof all)[number]
        const digest = digests[i] ?? ''
        return await gradeOne(trajectory, row, { digest, known: known[digest] })
      })
      asking.clear()
      const byTrajectory = new Map(all.map(({ trajectory }, i) => [trajectory, answers[i] as GradedAnswer]))
      return { groups: groups.map((group) => withRewards(group, byTrajectory)), answers }
    },
  }
}

/** The group with its rewards; answers without a score are exceptions of it. */
function withRewards(group: TrajectoryGroup, graded: ReadonlyMap<Trajectory, GradedAnswer>): TrajectoryGroup {
  const exceptions: RolloutException[] = [...group.exceptions]
  const trajectories = group.trajectories.filter((trajectory) => {
    const answer = graded.get(trajectory)
    if (answer === undefined) return false
    trajectory.reward = answer.graded.reward
    try {
      noteGraded(trajectory, answer.graded)
      return true
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      exceptions.push({ type: 'unresponsive_reward_error', message, traceback: '' })
      return false
    }
  })
  return new TrajectoryGroup(trajectories, { exceptions, metadata: group.metadata })
}

/** What graders/run answers, as far as it is read. */
interface RunAnswer {
  readonly reward: number
  readonly metadata: {
    readonly error_details: readonly GradeError[]
    readonly passed: Readonly<Record<string, boolean>>
  }
  readonly sub_rewards: Readonly<Record<string, number>>
  readonly model_grader_token_usage_per_model: Readonly<Record<string, TokenUsage>>
}

const toGraded = (answer: RunAnswer): Graded => ({
  reward: answer.reward,
  parts: answer.sub_rewards,
  passes: answer.metadata.passed,
  errors: answer.metadata.error_details,
  usage: answer.model_grader_token_usage_per_model,
})

async function sideBySide<T>(count: number, work: (i: number) => Promise<T>): Promise<readonly T[]> {
  const results: T[] = new Array<T>(count)
  let next = 0
  async function go(): Promise<void> {
    for (let i = next++; i < count; i = next++) results[i] = await work(i)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, go))
  return results
}

/** Graders of which events tell, with their keys in `parts`; of a single one null. */
export function partsOfGrader(grader: Grader): readonly {
  readonly key: string | null
  readonly name: string
  readonly type: string
  readonly model: string | null
}[] {
  const singles = grader.type === 'multi' ? [...grader.graders] : ([[null, grader]] as const)
  return singles.map(([key, each]) => ({
    key,
    name: each.name,
    type: each.type,
    model: 'model' in each ? each.model : null,
  }))
}

/**
 * The most that an answer can earn: who earns it has nothing left to learn.
 *
 * @returns null where a program or a server decides, or nobody can say
 */
export function bestReward(grader: Grader): number | null {
  if (grader.type !== 'multi') return rangeOf(grader)?.[1] ?? null
  const parts = [...grader.graders].map(([key, part]) => [key, rangeOf(part)] as const)
  if (parts.length > MOST_PARTS || parts.some(([, range]) => range === null)) return null
  const { compute } = readFormula(grader.formula)
  let best = Number.NEGATIVE_INFINITY
  // a formula that only rises, or only falls, with each part is at its most where all stand at an end
  for (let ends = 0; ends < 2 ** parts.length; ends++) {
    const scores = new Map(parts.map(([key, range], at) => [key, range?.[(ends >> at) & 1] ?? 0]))
    const reward = compute(scores)
    if (Number.isFinite(reward)) best = Math.max(best, reward)
  }
  return Number.isFinite(best) ? best : null
}

function rangeOf(grader: SingleGrader): readonly [number, number] | null {
  if (grader.type === 'score_model') return grader.range
  return ['string_check', 'text_similarity', 'label_model'].includes(grader.type) ? [0, 1] : null
}
