/**
 * Rewards from another model: a judge reads all trajectories of a group side by side and scores them relative to each other.
 *
 * Comparing is easier than grading, and only differences inside a group train; the idea is that of RULER in OpenPipe ART.
 * Any server of the OpenAI chat format can judge. What the trajectories share at their beginning is shown once.
 */

import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { createHttp } from '#sdk/client/http.js'
import type { Fetch } from '#sdk/client/light-fetch.js'
import type { Message, TrajectoryGroup } from '#sdk/rl/trajectory.js'

export interface JudgeOptions {
  /** With its version, as OpenAI clients take it: `http://127.0.0.1:8642/v1`. */
  readonly baseURL: string
  readonly apiKey: string | null
  readonly model: string
  /** What a good trajectory is; replaces the default. */
  readonly rubric?: string
  /** Attempts after the first one when an answer cannot be read. Default 2. */
  readonly retries?: number
  /** More fields of the request, for example `{ response_format: { type: 'json_object' } }`. */
  readonly body?: JsonObject
  readonly fetch?: Fetch
}

export interface Judge {
  /**
   * Sets the rewards of a group to scores from 0 to 1. The reward from before becomes the metric `independent_reward`,
   * the judge's reason a log of the trajectory.
   *
   * @throws {AppError} `judge_answer_invalid` when no answer could be read; what the connection throws
   */
  score(group: TrajectoryGroup, options?: { readonly signal?: AbortSignal }): Promise<TrajectoryGroup>
}

const DEFAULT_RUBRIC = [
  'A trajectory that reaches its goal scores clearly higher than one that does not.',
  'Of two that reach it, the more direct one scores a little higher.',
  'Partial progress counts; a small difference in quality is a small difference in score.',
].join('\n')

/** Creates the judge; opens no connection. */
export function createJudge(options: JudgeOptions): Judge {
  const http = createHttp({
    baseUrl: options.baseURL,
    apiKey: options.apiKey,
    ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
  })
  const retries = options.retries ?? 2

  return {
    async score(group, { signal } = {}) {
      const { trajectories } = group
      if (trajectories.length === 0) return group
      const json = {
        model: options.model,
        messages: buildPrompt(
          trajectories.map(({ messages }) => messages),
          options.rubric ?? DEFAULT_RUBRIC,
        ),
        ...options.body,
      }
      for (let retry = 0; ; retry += 1) {
        const request = { method: 'POST', path: '/chat/completions', json, isLong: true, signal } as const
        const scores = readScores(answerText(await http.json<unknown>(request)), trajectories.length)
        if (typeof scores !== 'string') {
          trajectories.forEach((trajectory, i) => {
            trajectory.metrics['independent_reward'] = trajectory.reward
            trajectory.reward = scores[i]?.score ?? 0
            trajectory.logs.push(`judge: ${scores[i]?.explanation ?? ''}`)
          })
          return group
        }
        if (retry >= retries) {
          throw new AppError('internal', 'judge_answer_invalid', `the judge ${options.model} cannot be read: ${scores}`)
        }
      }
    },
  }
}

function buildPrompt(histories: readonly (readonly Message[])[], rubric: string): readonly Message[] {
  const shared = sharedLength(histories)
  const context = (histories[0] ?? []).slice(0, shared)
  const shown = histories.map(
    (messages, i) => `<trajectory id="${i + 1}">\n${JSON.stringify(messages.slice(shared))}\n</trajectory>`,
  )
  const system = [
    'You compare several attempts of an agent at the same task and score each from 0 to 1.',
    rubric,
    'Reply with JSON only: {"scores":[{"trajectory_id":"1","explanation":"...","score":0.5}]}, one entry per trajectory.',
  ].join('\n\n')
  const user = [
    ...(context.length === 0 ? [] : [`<context>\n${JSON.stringify(context)}\n</context>`]),
    `<trajectories>\n${shown.join('\n')}\n</trajectories>`,
  ].join('\n\n')
  return [
    { role: 'system', content: system },
    { role: 'user', content: user },
  ]
}

/** Messages that all histories begin with. */
function sharedLength(histories: readonly (readonly Message[])[]): number {
  const [first = []] = histories
  let length = 0
  for (const message of first) {
    const text = JSON.stringify(message)
    if (!histories.every((messages) => JSON.stringify(messages[length]) === text)) break
    length += 1
  }
  return length
}

interface Score {
  readonly score: number
  readonly explanation: string
}

/** The scores in the order of the trajectories, or what is wrong with the answer. */
function readScores(text: string, count: number): readonly Score[] | string {
  const source = /\{.*\}/s.exec(text)?.[0]
  let document: { readonly scores?: readonly Readonly<Record<string, unknown>>[] }
  try {
    document = JSON.parse(source ?? '')
  } catch {
    return `expected JSON, got "${text.slice(0, 80)}"`
  }
  if (!Array.isArray(document.scores)) return 'expected a list "scores"'
  const scores: Score[] = []
  for (let i = 0; i < count; i += 1) {
    const entry = document.scores.find((each) => String(each['trajectory_id']) === String(i + 1))
    const score = Number(entry?.['score'])
    if (entry === undefined || !(score >= 0 && score <= 1)) {
      return `expected a score from 0 to 1 for trajectory ${i + 1}, got ${JSON.stringify(entry?.['score'] ?? null)}`
    }
    scores.push({ score, explanation: String(entry['explanation'] ?? '') })
  }
  return scores
}

function answerText(response: unknown): string {
  const choices = (response as { readonly choices?: readonly { readonly message?: { readonly content?: unknown } }[] })
    .choices
  const content = choices?.[0]?.message?.content
  return typeof content === 'string' ? content : ''
}
