/**
 * Answers with what they were asked and their reward, for a person to read and for a file.
 */
import type { JsonObject } from '#base/util/json.js'
import { formatNumber } from '#cli/terminal/format.js'
import type { Message, Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { PromptRow } from './prompt-file.js'

export interface Example {
  readonly messages: readonly Message[]
  readonly answer: string
  readonly reward: number
  readonly metrics: Readonly<Record<string, number | boolean>>
  /** The row of the file of prompts. */
  readonly row: JsonObject
}

/** All answers, in the order of the prompts. @param rows one a group */
export function examplesOf(groups: readonly TrajectoryGroup[], rows: readonly PromptRow[]): readonly Example[] {
  return groups.flatMap(({ trajectories }, i) => trajectories.map((each) => exampleOf(each, rows[i])))
}

export function exampleOf({ answer, reward, metrics }: Trajectory, asked: PromptRow | undefined): Example {
  return { messages: asked?.messages ?? [], answer, reward, metrics, row: asked?.row ?? {} }
}

/** The worst ones first; among equals in their order, one of each prompt before a second of any. */
export function worstOf(examples: readonly Example[], count: number): readonly Example[] {
  const turns = new Map<JsonObject, number>()
  const ranked = examples.map((example) => {
    const turn = turns.get(example.row) ?? 0
    turns.set(example.row, turn + 1)
    return { example, turn }
  })
  return ranked
    .sort((a, b) => a.example.reward - b.example.reward || a.turn - b.turn)
    .slice(0, count)
    .map(({ example }) => example)
}

/** As a person reads it: what was asked last, what came, what was wanted. */
export function sayExample({ messages, answer, reward, row }: Example): string {
  const wanted = row['answer']
  return [
    `  asked   ${textOf(messages.at(-1))}`,
    `  said    ${answer === '' ? '(nothing)' : onOneLine(answer)}`,
    ...(typeof wanted === 'string' || typeof wanted === 'number' ? [`  wanted  ${onOneLine(String(wanted))}`] : []),
    `  reward  ${formatNumber(reward)}`,
  ].join('\n')
}

function textOf(message: Message | undefined): string {
  const content = message?.content
  return onOneLine(typeof content === 'string' ? content : JSON.stringify(content ?? null))
}

function onOneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ⏎ ')
}
