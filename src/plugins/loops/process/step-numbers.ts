/**
 * What of a step is drawn: numbers by the names of their series. And of an evaluation the answers that earned most and least,
 * with what each grader said of them.
 */
import type { JsonObject } from '#base/util/json.js'
import type { Grader } from '#plugins/graders/grading/spec.js'
import type { Message, TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopExample, LoopExamples } from '../loop-service.js'
import { type GradedAnswer, partsOfGrader } from './grading.js'
import type { Facts } from './metrics.js'

/** Answers at each end, and characters of their texts. */
const [EXAMPLES, CHARACTERS] = [5, 2000]

/** @param own numbers of the step itself, `seconds/training` and the like; others are left out */
export function stepNumbers(
  grader: Grader,
  { train, valid }: { readonly train: Facts | null; readonly valid: Facts | null },
  own: JsonObject,
): Readonly<Record<string, number>> {
  const numbers: Record<string, number> = {}
  const add = (name: string, value: number): void => {
    if (value !== 0) numbers[name] = (numbers[name] ?? 0) + value
  }
  for (const [name, value] of Object.entries(own)) if (typeof value === 'number') numbers[name] = value
  if (train !== null) numbers['completion_tokens'] = train.completionTokens
  const parts = partsOfGrader(grader)
  for (const [side, facts] of [['train', train] as const, ['valid', valid] as const]) {
    if (facts === null) continue
    // graders of one name are told apart by their place
    for (const [i, { name }] of parts.entries()) {
      const isFirst = parts.findIndex((each) => each.name === name) === i
      const { reward = 0, errors = {} } = facts.graders[i] ?? {}
      if (parts.length > 1) numbers[`graders/${isFirst ? name : `${name} ${i + 1}`}/${side}`] = reward
      // a grader's errors are counted by its name
      if (isFirst)
        for (const [flag, count] of Object.entries(errors)) add(`errors/${flag.replace(/_error$/, '')}`, count)
    }
    for (const [model, used] of Object.entries(facts.paid ?? {})) {
      add(`tokens/${model}/prompt`, used.prompt_tokens)
      add(`tokens/${model}/completion`, used.completion_tokens)
    }
  }
  return numbers
}

/** @param groups before answers without a score were taken out @param answers theirs, in order */
export function examplesOf(groups: readonly TrajectoryGroup[], answers: readonly GradedAnswer[]): LoopExamples {
  const all = groups.flatMap(({ trajectories }) => trajectories)
  const ordered = answers
    .flatMap(({ graded }, i) => {
      const trajectory = all[i]
      return trajectory === undefined ? [] : [{ trajectory, graded }]
    })
    .sort((a, b) => b.graded.reward - a.graded.reward)
  const toExample = ({ trajectory, graded }: (typeof ordered)[number]): LoopExample => ({
    prompt: cut(lastAsked(trajectory.messages)),
    answer: cut(trajectory.answer),
    reward: graded.reward,
    parts: graded.parts,
    passes: graded.passes,
    errors: graded.errors.map(({ grader, flag, message }) => ({ grader, flag, message: cut(message) })),
  })
  // of few answers none stands at both ends
  const count = Math.min(EXAMPLES, Math.ceil(ordered.length / 2))
  const worst = ordered.slice(Math.max(count, ordered.length - EXAMPLES)).reverse()
  return { best: ordered.slice(0, count).map(toExample), worst: worst.map(toExample) }
}

const cut = (text: string): string => (text.length > CHARACTERS ? `${text.slice(0, CHARACTERS)}…` : text)

function lastAsked(messages: readonly Message[]): string {
  const content = messages.findLast(({ role }) => role === 'user')?.content
  return typeof content === 'string' ? content : JSON.stringify(content ?? '')
}
