/**
 * Who sends a request, and whose things it may see.
 */
import type { KeyScope } from '#contract/wire/access/key-words.js'
import type { AnswerListener } from './answer-listener.js'

/** Whose things may be seen. */
export interface Tenant {
  readonly entity: string
  /** The only project; null: all of the entity. */
  readonly project: string | null
}

/** Who sends a request. */
export interface Principal extends Tenant {
  readonly keyId: string
  readonly keyPrefix: string
  /** The browser's session that stands for the key; null: the key itself was sent. */
  readonly sessionId: string | null
  readonly scope: KeyScope
  /** The project that the request asks to be counted for; null: it names none. */
  readonly usageProject: string | null
  /** Which of its answers are computed behind whose: those of a lower number come first, of people 0. Absent: 0. */
  readonly priority?: number
  /** Hears the answers it is given. Absent: nobody does. */
  readonly listener?: AnswerListener
}
