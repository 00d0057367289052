/**
 * A request inside the engine, from admission to its last event.
 */
import type { AdapterLayout } from './adapter-layout.js'
import type { GenerationListener, GenerationRequest } from './generation.js'
import type { Choice } from './sampling/choice.js'

/** A request inside the engine. */
export interface ActiveRequest {
  readonly request: GenerationRequest
  readonly listener: GenerationListener
  readonly choices: readonly Choice[]
  layout: AdapterLayout | null
  /** Choices that have not ended. */
  readonly open: Set<Choice>
  isAborted: boolean
}
