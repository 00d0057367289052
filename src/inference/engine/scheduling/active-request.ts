/**
 * A request inside the engine, from admission to its last event.
 */

import { BEHIND_ALL } from '#contract/processes/priority.js'
import type { GenerationListener, GenerationRequest } from '../generation.js'
import type { KvSequence, LoadedAdapter } from '../model-runner.js'
import { type Beam, BeamSearch } from '../sampling/beam-search.js'
import { Choice } from '../sampling/choice.js'
import type { ComputedPrompt } from './prefix-cache.js'

/** A beam search, and what its beams go on from. */
export interface SearchRun {
  readonly beams: BeamSearch
  /** Beams that have been computed in this step and wait for the others, with what they have added to the prompt. */
  readonly held: Map<Beam, KvSequence | null>
  prompt: ComputedPrompt | null
}

/** A request inside the engine. */
export interface ActiveRequest {
  readonly request: GenerationRequest
  readonly listener: GenerationListener
  readonly choices: readonly Choice[]
  /** Its choices are beams of this search; null: they are sampled. */
  readonly search: SearchRun | null
  /** Requests are numbered as they come. */
  readonly arrival: number
  readonly priority: number
  /** Whether it is computed only while no other request is. */
  readonly isBehind: boolean
  /** Requests of different keys take turns. */
  readonly keyId: string
  /** When it was let in, by the clock of the process; infinite before. */
  admittedMs: number
  /** Its adapter, once loaded; null for the base model. */
  adapter: LoadedAdapter | null
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
  const beams = beam === null ? null : new BeamSearch({ rules, stopRules, promptIds: promptTokenIds, beam })
  const { priority = 0 } = request
  const search = beams === null ? null : { beams, held: new Map<Beam, KvSequence | null>(), prompt: null }
  const choices = beams?.beams ?? Array.from({ length: rules.n }, (_, index) => new Choice(index, options))
  return {
    request,
    listener,
    choices,
    search,
    arrival,
    priority,
    isBehind: priority >= BEHIND_ALL,
    keyId: request.keyId ?? '',
    admittedMs: Number.POSITIVE_INFINITY,
    adapter: null,
    open: new Set(choices),
    isAborted: false,
  }
}
