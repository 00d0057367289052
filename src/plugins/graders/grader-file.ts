/**
 * `--grader`: a reward as a file, in the form of OpenAI's graders. Loaded when the flag is given.
 */
import { AppError } from '#base/errors/errors.js'
import { parseExact } from '#base/json/exact-json.js'
import { describeJsonFault } from '#base/json/json-fault.js'
import type { CommandContext } from '#cli/command/context.js'
import { displayPath, messageOf, readInput } from '#cli/input/input-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import { checkGrader } from './grading/check.js'
import { createPacer } from './grading/endpoint.js'
import type { GradeContext } from './grading/grade.js'
import { withBounds } from './grading/model-grader.js'
import { createLocalPython } from './grading/python/local-python.js'
import { type Grader, readGrader } from './grading/spec.js'
import { readTeachers } from './grading/teachers.js'

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
