/**
 * A request inside the engine, from admission to its last event.
 */

import type { GenerationListener, GenerationRequest } from '../generation.js'
import type { AdapterLayout } from '../runner/adapter-layout.js'
import { BeamSearch } from '../sampling/beam-search.js'
import { Choice } from '../sampling/choice.js'

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
  /** Requests of different keys take turns. */
  readonly keyId: string
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

/** What requests of one engine have in common. */
export interface ActivationContext {
  readonly contextLength: number
  readonly eosTokenIds: ReadonlySet<number>
  /** Whether choices may guess their next tokens. */
  readonly isSpeculative: boolean
  readonly arrival: number
}

/** A request as it begins, with its choices; its adapter is not loaded yet. */
export function activateRequest(
  request: GenerationRequest,
  listener: GenerationListener,
  { contextLength, eosTokenIds, isSpeculative, arrival }: ActivationContext,
): ActiveRequest {
  const { rules, promptTokenIds } = request
  const left = contextLength - promptTokenIds.length
  const stopRules = {
    eosTokenIds,
    ignoreEos: rules.ignoreEos,
    stopTokenIds: new Set(rules.stopTokenIds),
    minTokens: rules.minTokens,
    repetition: rules.repetition ?? null,
    maxTokens: Math.min(rules.maxTokens ?? left, left),
  }
  const options = { rules, stopRules, promptIds: promptTokenIds, isSpeculative }
  const beam = rules.beam ?? null
  const search = beam === null ? null : new BeamSearch({ rules, stopRules, promptIds: promptTokenIds, beam })
  const choices = search?.beams ?? Array.from({ length: rules.n }, (_, index) => new Choice(index, options))
  return {
    request,
    listener,
    choices,
    search,
    arrival,
    priority: request.priority ?? 0,
    keyId: request.keyId ?? '',
    admittedMs: Number.POSITIVE_INFINITY,
    layout: null,
    open: new Set(choices),
    isAborted: false,
  }
}
