/**
 * What the parts of a loop's process work with: the server, rows, grader, and how far it is.
 */
import type { JsonObject } from '#base/util/json.js'
import type { Model } from '#contract/wire/models.js'
import { createClient } from '#sdk/client/client.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { LoopReport, LoopStart } from '../messages.js'
import { createGrading, type GradedAnswer } from './grading.js'
import type { Link } from './link.js'
import { type Facts, graderTokensOf } from './metrics.js'
import { type LoopRow, readRows, splitRows } from './rows.js'
import { sample } from './sampling.js'

/** A server that is busy, or starts an engine, answers later. */
const RETRIES = 6

/** What a process leaves those after it, inside one step and beyond. */
export interface Progress {
  /** Steps in a row in which nothing trained. */
  readonly dull: number
  /** Mean reward of the first step; null before it. */
  readonly first: number | null
  /** Whether a step trained. */
  readonly hasTrained: boolean
  /** The step's groups, once they are graded. */
  readonly graded: GradedStep | null
}

export interface GradedStep {
  readonly fileId: string
  readonly facts: Facts
  readonly groups: number
  readonly trainedGroups: number
  /** Answers that did not come, or got no score. */
  readonly dropped: number
  readonly samplingSeconds: number
  readonly tools?: ReturnType<typeof toolCountsOf>
  /** Why nothing trains, one sentence each; empty where something does. */
  readonly reasons: readonly string[]
}

export type Run = Awaited<ReturnType<typeof openRun>>

export const say = (level: 'info' | 'warn' | 'error', message: string, data: JsonObject = {}) =>
  ({ type: 'message', level, message, data }) as const

export async function openRun(start: LoopStart, link: Link) {
  const { spec, id, url, token } = start
  const client = createClient({ baseUrl: url, apiKey: token, maxRetries: RETRIES })
  const grading = createGrading(start, client.http, link)
  const textOf = async (fileId: string): Promise<string> => await (await client.marks.openFile(fileId)).text()
  const given = spec.heldOutFileId === null ? null : readRows(await textOf(spec.heldOutFileId))
  let reportedMs = performance.now()

  return {
    ...{ id, spec, client, grading, textOf },
    callTool: link.call,
    ...splitRows(readRows(await textOf(spec.promptsFileId)), given, spec),
    state: {
      progress: { dull: 0, first: null, hasTrained: false, graded: null, ...start.progress } as Progress,
      /** Step of the model that the step samples from; null: it has not begun. */
      baseStep: start.baseStep,
    },
    modelNow: async (): Promise<Model> => await client.models.get(spec.modelId),
    /** Reports the time since the report before, too. */
    report: async (given: LoopReport): Promise<void> => {
      const nowMs = performance.now()
      const seconds = (nowMs - reportedMs) / 1000
      reportedMs = nowMs
      await link.report({ ...given, used: { ...given.used, seconds } })
    },
    usedBy: (
      answers: readonly GradedAnswer[],
      groups: readonly TrajectoryGroup[],
    ): NonNullable<LoopReport['used']> => ({
      graderTokens: graderTokensOf(answers),
      endpointCalls:
        grading.endpointCalls * answers.filter(({ wasKnown }) => !wasKnown).length + toolCountsOf(groups).tool_calls,
    }),
  }
}

/** Calls of tools by all answers, and those that failed. */
export function toolCountsOf(groups: readonly TrajectoryGroup[]) {
  const sum = (name: string): number =>
    groups
      .flatMap(({ trajectories }) => trajectories)
      .reduce((total, { metrics }) => total + Number(metrics[name] ?? 0), 0)
  return { tool_calls: sum('tool_calls'), tool_errors: sum('tool_errors') }
}

/** Answers of a checkpoint. @throws {Error} where no row was answered */
export async function sampleRows(
  { client, spec, callTool }: Pick<Run, 'client' | 'spec' | 'callTool'>,
  { model, step }: { readonly model: Model; readonly step: number },
  asked: readonly { readonly row: LoopRow; readonly seed: number }[],
  answers: number,
): Promise<{ readonly groups: readonly TrajectoryGroup[]; readonly seconds: number }> {
  const begunMs = performance.now()
  const groups = await sample({ client, model, step, spec, callTool }, asked, answers)
  const [first] = groups.flatMap(({ exceptions }) => exceptions)
  if (first !== undefined && groups.every(({ trajectories }) => trajectories.length === 0)) {
    throw new Error(`no row was answered; the first: ${first.message}`)
  }
  return { groups, seconds: (performance.now() - begunMs) / 1000 }
}
