/**
 * Questions to the thread that reads recorded calls, and its answers.
 */
import type { CallForm, RecordedCall } from '../route.js'

/** A call as it was passed on. */
export interface UnreadCall {
  readonly form: CallForm
  readonly status: number
  readonly isStream: boolean
  /** The upstream's Content-Encoding. */
  readonly encoding: string | null
  readonly request: Uint8Array
  readonly answer: Uint8Array
  /** The answer did not come to its end, or was longer than what is held of one. */
  readonly isAnswerCut: boolean
  readonly keepsContent: boolean
  readonly maxBytes: number
  readonly maskPatterns: readonly string[]
}

/** What becomes of it in a row. */
export type ReadCall = Pick<
  RecordedCall,
  | 'model'
  | 'inputTokens'
  | 'cachedTokens'
  | 'outputTokens'
  | 'content'
  | 'shapeDigest'
  | 'promptDigest'
  | 'answerDigest'
  | 'request'
  | 'answer'
>
