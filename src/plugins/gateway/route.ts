/**
 * What a route of the gateway is, and what is kept of a call.
 */

/** Formats whose calls are recorded, by the end of their paths; whatever else is asked passes on unrecorded. */
export const FORMS = ['chat', 'responses', 'messages'] as const
export type CallForm = (typeof FORMS)[number]

export function formOf(method: string, path: string): CallForm | null {
  if (method !== 'POST') return null
  if (path === 'chat/completions') return 'chat'
  return path === 'responses' || path === 'messages' ? path : null
}

/** How a call ended: whole, refused by the upstream, cut by it in the middle, or left by the client. */
export const OUTCOMES = ['complete', 'refused', 'cut', 'cancelled'] as const
export type CallOutcome = (typeof OUTCOMES)[number]

/** Whether what was said is kept, and why not. */
export const CONTENTS = ['kept', 'not_wanted', 'too_large', 'unreadable', 'mask_too_slow'] as const
type CallContent = (typeof CONTENTS)[number]

/** What whoever made a route chose. */
export interface RouteSpec {
  /** What stands in place of `/gateway/<name>/v1`, without a slash at its end. */
  readonly upstream: string
  /** The variable of the server's environment with the upstream's key; null: clients bring it. */
  readonly keyVariable: string | null
  /** Share of calls that are recorded. */
  readonly sample: number
  readonly keepsContent: boolean
  readonly retentionDays: number
  /** A longer call, question and answer together, is counted without its content. */
  readonly maxCallBytes: number
  /** Of all calls of the route: the oldest go. */
  readonly maxBytes: number
  /** Regular expressions; what fits one is masked. */
  readonly maskPatterns: readonly string[]
}

export interface GatewayRoute {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly name: string
  /** Whether programs of this machine need no key of ours. */
  readonly isLocal: boolean
  readonly spec: RouteSpec
  readonly calls: number
  readonly lostCalls: number
  readonly createdAtMs: number
}

/** A call as it is kept. */
export interface RecordedCall {
  readonly id: string
  readonly routeId: string
  readonly form: CallForm
  readonly model: string | null
  readonly status: number
  readonly outcome: CallOutcome
  readonly isStream: boolean
  readonly firstByteMs: number | null
  readonly durationMs: number
  readonly inputTokens: number | null
  readonly cachedTokens: number | null
  readonly outputTokens: number | null
  readonly content: CallContent
  readonly shapeDigest: string | null
  readonly promptDigest: string | null
  readonly answerDigest: string | null
  readonly request: string | null
  readonly answer: string | null
  readonly startedAtMs: number
}
