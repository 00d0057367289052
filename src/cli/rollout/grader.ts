/**
 * `--grader`: a reward as a file, in the form of OpenAI's graders. Loaded when the flag is given.
 */
import { createHash } from 'node:crypto'
import { AppError } from '#base/errors/errors.js'
import { parseExact } from '#base/json/exact-json.js'
import { describeJsonFault } from '#base/json/json-fault.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { checkGrader, pathsOfNoRow } from '#sdk/graders/check.js'
import { createPacer } from '#sdk/graders/endpoint.js'
import type { GradeContext } from '#sdk/graders/grade.js'
import { gradeTrajectory } from '#sdk/graders/grade-with.js'
import { withBounds } from '#sdk/graders/model-grader.js'
import { createLocalPython } from '#sdk/graders/python/local-python.js'
import { type Grader, readGrader } from '#sdk/graders/spec.js'
import { readTeachers } from '#sdk/graders/teachers.js'
import type { CommandContext } from '../command/context.js'
import { displayPath, messageOf, readInput } from '../input/input-file.js'
import { UsageError } from '../terminal/errors.js'
import type { RolloutFlags } from './flags.js'
import { readPrompts } from './prompt-file.js'
import { assertRange, withinRange } from './reward.js'
import type { RolloutPlan } from './sample.js'

/** @throws {UsageError} `invalid_grader` with the file and the path in it */
export async function readGraderFile(
  path: string,
  io: CommandContext['io'],
): Promise<{ readonly grader: Grader; readonly text: string }> {
  const text = await readInput(path, io)
  try {
    const grader = readGrader(parseExact(text))
    checkGrader(grader)
    return { grader, text }
  } catch (error) {
    const fault =
      error instanceof SyntaxError ? `not valid JSON: ${describeJsonFault(text) ?? error.message}` : messageOf(error)
    throw new UsageError('invalid_grader', `${displayPath(path)}: ${fault}`, {
      param: '--grader',
      hint: error instanceof AppError ? (error.hint ?? 'trainyard grader check tries one on an answer') : undefined,
      cause: error,
    })
  }
}

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

/**
 * Models that grade are teachers of the flags, and those of the service, which is connected to when the first one is asked.
 * Endpoints are asked from here, and their headers may name the variables of whoever calls. Python runs here, with limits, and
 * behind walls where this system gives some.
 */
export function graderMeans(
  { connect, environment, output }: Pick<CommandContext, 'connect' | 'environment' | 'output'>,
  { teachers = [] }: { readonly teachers?: readonly string[] | undefined },
): GradeContext & {
  /** Compiles what is Python in it. @throws {UsageError} `invalid_grader` */
  checkPython(grader: Grader): Promise<void>
} {
  const known = readTeachers(teachers, environment)
  const python = createLocalPython({
    python: environment['TRAINYARD_PYTHON'],
    environment,
    onNoWalls: (why) => output.status(`Python graders run without walls here, with limits only: ${why}`),
  })
  return {
    ask: async (request, call) => {
      const teacher = known.get(request.model)
      if (teacher !== undefined) return await teacher(request, call)
      return await (await connect()).chat.create(withBounds(request), call)
    },
    python: python.grade,
    checkPython: async (grader) => {
      try {
        await python.check(grader)
      } catch (error) {
        throw new UsageError('invalid_grader', messageOf(error), {
          param: '--grader',
          hint: error instanceof AppError ? error.hint : 'TRAINYARD_PYTHON names the interpreter, default python3',
          cause: error,
        })
      }
    },
    access: {
      address: () => Promise.resolve(null),
      variable: (name) => environment[name],
      pacer: createPacer(),
    },
  }
}

/** What it can be at least and at most; null of a formula, which may be anything. */
function rangeOf(grader: Grader): RewardRange | null {
  if (grader.type === 'score_model') return grader.range
  return grader.type === 'multi' || grader.type === 'endpoint' || grader.type === 'python' ? null : [0, 1]
}
