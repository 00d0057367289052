/**
 * `trainyard grader check`: what a grader says of one answer, here, without a server.
 */
import { AppError } from '#base/errors/errors.js'
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { readInput } from '#cli/input/input-file.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber } from '#cli/terminal/format.js'
import { teacherFlag } from '../flags.js'
import { graderMeans, readGraderFile } from '../grader-file.js'
import { grade } from '../grading/grade.js'
import { toSample } from '../grading/sample.js'
import { toRunResult } from '../run-result.js'
import { measureAgreement, readScoredRows, sayAgreement } from './agreement.js'

export const checkGraderCommand = defineCommand({
  path: ['grader', 'check'],
  summary: 'Try a grader on an answer',
  details:
    'Reads a grader, a JSON file in OpenAI’s form, and grades an answer with it; needs no server, but for graders that ask a model. With --json it prints what POST /v1/fine_tuning/alpha/graders/run answers. A grader that errs earns 0; the exit code is 1 then.',
  examples: [
    [
      'trainyard grader check grader.json --item \'{"answer":"4"}\' --sample "it is 4"',
      'the reward, its parts, and what went wrong',
    ],
    ['trainyard grader check grader.json', 'only whether it can be read'],
    [
      'trainyard grader check grader.json --agreement scored.jsonl',
      'how well it agrees with people, by lines {"item": …, "sample": …, "score": …}',
    ],
  ],
  args: { grader: argument.required('file of the grader, - for standard input') },
  flags: {
    item: flag.text('--item <json>', 'the row, which templates call item; default {}'),
    sample: flag.text('--sample <text>', 'the answer, which templates call sample.output_text'),
    sampleJson: flag.text('--sample-json <json>', 'an answer of chat with "choices", which may call tools'),
    agreement: flag.text(
      '--agreement <file>',
      'answers that people have scored, JSON Lines with item, sample and score',
    ),
    teachers: teacherFlag,
  },
  next: ['trainyard rollout <model> --prompts q.jsonl --grader grader.json'],
  async run(context) {
    const { args, flags, io, output, clock, signal } = context
    const { grader } = await readGraderFile(args.grader, io)
    const { sample, sampleJson } = flags
    if (sample !== undefined && sampleJson !== undefined) {
      throw new UsageError('conflicting_options', '--sample and --sample-json are both the answer: give one')
    }
    const { checkPython, ...means } = graderMeans(context, flags)
    if (flags.agreement !== undefined) {
      if (sample !== undefined || sampleJson !== undefined || flags.item !== undefined) {
        throw new UsageError(
          'conflicting_options',
          '--agreement has rows and answers of its own: leave the others out',
          {
            param: '--agreement',
          },
        )
      }
      await checkPython(grader)
      const rows = readScoredRows(await readInput(flags.agreement, io), flags.agreement)
      const found = await measureAgreement(
        rows,
        async (row) => await grade(grader, { item: row.item, sample: toSample(row.sample) }, { ...means, signal }),
      )
      return output.result(found, sayAgreement(found), [String(found.spearman?.value ?? '')])
    }
    const given = sample ?? (sampleJson === undefined ? undefined : readObject(sampleJson, '--sample-json'))
    if (given === undefined) {
      await checkPython(grader)
      const json = { object: 'grader', name: grader.name, type: grader.type }
      return output.result(json, `${grader.name} is a grader of the kind ${grader.type}`, [grader.name])
    }
    const item = flags.item === undefined ? {} : readObject(flags.item, '--item')
    const begunMs = clock.monotonicMs()
    const graded = await grade(grader, { item, sample: toSample(given) }, { ...means, signal })
    const parts = Object.entries(graded.parts).map(([key, part]) => `  ${key} ${formatNumber(part)}`)
    output.result(
      toRunResult(grader, graded, (clock.monotonicMs() - begunMs) / 1000),
      [`Reward ${formatNumber(graded.reward)} (${grader.name})`, ...parts].join('\n'),
      [String(graded.reward)],
    )
    const [first] = graded.errors
    if (first === undefined) return
    const others = graded.errors.length === 1 ? '' : `, and ${graded.errors.length - 1} more`
    throw new AppError('internal', first.flag, `the grader ${first.grader} erred: ${first.message}${others}`)
  },
})

function readObject(text: string, param: string): JsonObject {
  const wrong = (): UsageError =>
    new UsageError('invalid_usage', `${param} must be a JSON object, got ${text.slice(0, 60)}`, { param })
  try {
    const value = parseExact(text)
    if (isJsonObject(value)) return value
  } catch {
    throw wrong()
  }
  throw wrong()
}
