/**
 * A request inside the engine, from admission to its last event.
 */
import type { AdapterLayout } from './adapters/adapter-layout.js'
import type { BeamSearch } from './beams/beam-search.js'
import type { GenerationListener, GenerationRequest } from './generation.js'
import type { Choice } from './sampling/choice.js'

/** A request inside the engine. */
export interface ActiveRequest {
  readonly request: GenerationRequest
  readonly listener: GenerationListener
  readonly choices: readonly Choice[]
  /** Its choices are beams of this search; null: they are sampled. */
  readonly search: BeamSearch | null
  /** Requests are numbered as they come. */
  readonly arrival: number
  readonly priority: number
  /** When it was let in, by the clock of the process; infinite before. */
  admittedMs: number
  /** Its adapter, once loaded; null for the base model. */
  layout: AdapterLayout | null
  /** Choices that have not ended. */
  readonly open: Set<Choice>
  isAborted: boolean
}

/** Whether `a` goes before `b` where nothing else decides. */
export function isBefore(a: ActiveRequest, b: ActiveRequest): boolean {
  return a.priority !== b.priority ? a.priority < b.priority : a.arrival < b.arrival
}
