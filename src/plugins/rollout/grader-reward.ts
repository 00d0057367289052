/**
 * `--grader` in place of `--reward`. Loaded when the flag is given.
 */
import { createHash } from 'node:crypto'
import type { CommandContext } from '#cli/command/context.js'
import { displayPath } from '#cli/input/input-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { graderMeans, readGraderFile } from '#plugins/graders/grader-file.js'
import { pathsOfNoRow } from '#plugins/graders/grading/check.js'
import { gradeTrajectory } from '#plugins/graders/grading/grade-with.js'
import type { Grader } from '#plugins/graders/grading/spec.js'
import type { RolloutFlags } from './flags.js'
import { readPrompts } from './prompt-file.js'
import { assertRange, withinRange } from './reward.js'
import type { RolloutPlan } from './sample.js'

/** What `--grader` plans, as `planRollout` does it for `--reward`. */
export async function planGrading(
  context: Pick<CommandContext, 'io' | 'output' | 'connect' | 'environment'>,
  flags: Pick<RolloutFlags, 'prompts' | 'reward' | 'rewardRange' | 'system' | 'map' | 'teachers'> & {
    readonly grader: string
  },
): Promise<RolloutPlan> {
  if (flags.reward !== undefined) {
    throw new UsageError('conflicting_options', '--reward and --grader both say what an answer is worth: give one', {
      param: '--grader',
      hint: 'a multi grader adds several up',
    })
  }
  const { grader, text } = await readGraderFile(flags.grader, context.io)
  const said = flags.rewardRange ?? null
  const own = rangeOf(grader)
  assertRange(flags.grader, { own, said })
  const rows = await readPrompts(flags.prompts, context.io, { ...flags, isExact: true, say: context.output.status })
  const missing = pathsOfNoRow(
    grader,
    rows.map(({ row }) => row),
  )
  if (missing.length > 0) {
    throw new UsageError('invalid_grader', `no row of ${displayPath(flags.prompts)} has ${missing.join(', ')}`, {
      param: '--grader',
      hint: 'item is the row: name a field that rows have, or add it to them',
    })
  }
  const range = own ?? said
  const { checkPython, ...means } = graderMeans(context, flags)
  await checkPython(grader)
  return {
    rows,
    range,
    reward: createHash('sha256').update(text).digest('hex'),
    score: withinRange(flags.grader, range, async (scored, item, signal) => {
      scored.reward = (await gradeTrajectory(grader, scored, { item, ...means, signal })).reward
    }),
  }
}

/** What it can be at least and at most; null of a formula, which may be anything. */
function rangeOf(grader: Grader): RewardRange | null {
  if (grader.type === 'score_model') return grader.range
  return grader.type === 'multi' || grader.type === 'endpoint' || grader.type === 'python' ? null : [0, 1]
}
