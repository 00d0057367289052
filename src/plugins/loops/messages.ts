/**
 * What a loop's process and its server say to each other, over the channel that the process was started with. Everything else
 * it does is asked of the public API.
 */
import type { JsonObject } from '#base/util/json.js'
import type { Graded } from '#plugins/graders/grading/grade.js'
import type { LoopEvent, LoopExamples, LoopPhase, LoopSpec, LoopStep } from './loop-service.js'
import type { ToolCallRequest } from './tools.js'

/** The first message: what is to be done, and how far others came. */
export interface LoopStart {
  readonly type: 'start'
  /** Where the server listens. */
  readonly url: string
  /** Signs in as the key that the loop is counted to. */
  readonly token: string
  readonly id: string
  readonly entity: string
  readonly project: string
  readonly spec: LoopSpec
  /** Steps that have ended. */
  readonly step: number
  readonly baseStep: number | null
  readonly progress: JsonObject
  /** Whether something was measured: before the first step it is, once. */
  readonly isEvaluated: boolean
}

/** What a process adds to the loop's record, all or nothing. */
export interface LoopReport {
  /** A border of phases: here it may have to pause. */
  readonly phase?: LoopPhase
  /** Of the model, where a step begins. */
  readonly baseStep?: number
  readonly jobId?: string
  /** What a later process must know. */
  readonly progress?: object
  /** A step that has ended; the next begins anew. */
  readonly endedStep?: number
  /** What a step came to, or the evaluation before the first. */
  readonly reached?: LoopStep
  /** Of an evaluation; those of the one before go. */
  readonly examples?: LoopExamples
  /** Since the report before. */
  readonly used?: {
    readonly graderTokens?: number
    readonly seconds?: number
    readonly endpointCalls?: number
    readonly trainedTokens?: number
  }
  readonly events?: readonly Pick<LoopEvent, 'type' | 'level' | 'message' | 'data'>[]
  /** The loop is over; null: it succeeded. */
  readonly end?: { readonly error: { readonly code: string; readonly message: string } | null }
}

/** What becomes of the process after a report. `stop`: the loop is no longer its own. */
export type LoopOrder = 'go' | 'pause' | 'stop'

export type LoopQuestion =
  | { readonly kind: 'report'; readonly report: LoopReport }
  | { readonly kind: 'grades'; readonly digests: readonly string[] }
  | { readonly kind: 'remember'; readonly digest: string; readonly graded: Graded }
  | { readonly kind: 'call'; readonly call: ToolCallRequest }

export type FromProcess =
  | { readonly type: 'ask'; readonly number: number; readonly question: LoopQuestion }
  /** Before it ends without an end of the loop. */
  | { readonly type: 'failed'; readonly message: string }

export type ToProcess =
  | LoopStart
  | { readonly type: 'answer'; readonly number: number; readonly answer: unknown; readonly error: string | null }

/** What the file of a step's groups is called, in which a process leaves them to those after it. */
export const groupsFile = (loopId: string, step: number | '%'): string => `loop-${loopId}-${step}.json`
