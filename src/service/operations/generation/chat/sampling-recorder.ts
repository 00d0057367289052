/**
 * How the tokens of a choice were drawn, as the engine tells it → the record that stands beside its token ids
 * (`contract/wire/sampling-record.ts`), of the whole choice and of each part of a stream.
 *
 * Sets are many times what is answered: all choices of a request share a budget, and a set beyond it is told as one that is
 * too large.
 */
import { appliedTemperature, MOST_ANSWERED_IDS } from '#base/sampling-record.js'
import { append } from '#base/util/lists.js'
import type { SamplingRecord } from '#contract/wire/sampling-record.js'
import type { DeltaEvent, SamplingParameters } from '#inference/host/protocol.js'

/** Rules that leave tokens out. */
type CuttingRules = Pick<SamplingParameters, 'minTokens' | 'allowedTokenIds' | 'badWords' | 'xtc'>
/** What of a request's sampling is repeated beside its tokens, and what a set that is not told is explained with. */
export type RepeatedSampling = Pick<SamplingParameters, 'temperature' | 'topP' | 'topK' | 'minP' | 'beam'> &
  Partial<CuttingRules>

/** Ids of sets that all choices of one request may still tell. */
export class SetBudget {
  #left: number

  constructor(ids = MOST_ANSWERED_IDS) {
    this.#left = ids
  }

  /** @returns whether a set of so many ids may be told; one of the sampled token alone always */
  take(ids: number): boolean {
    if (ids <= 1) return true
    if (ids > this.#left) return false
    this.#left -= ids
    return true
  }
}

/** Tokens of a choice as its record has them. */
class DrawnTokens {
  /** 0 where it is not known. */
  readonly logprobs: number[] = []
  /** Of every token. */
  isKnown = true
  readonly counts: number[] = []
  readonly ids: number[] = []
  readonly unmodelled = new Set<string>()
}

export class SamplingRecorder {
  readonly #rules: Pick<SamplingRecord, 'temperature' | 'top_p' | 'top_k' | 'min_p'>
  readonly #cuts: readonly string[]
  readonly #budget: SetBudget
  /** Null: nobody reads it. */
  readonly #whole: DrawnTokens | null
  #isPlain = true

  /** @param keepsWhole false: the parts are sent as they come, and nothing is kept of them */
  constructor(
    sampling: RepeatedSampling,
    { budget, keepsWhole }: { readonly budget: SetBudget; readonly keepsWhole: boolean },
  ) {
    const { temperature, topP, topK, minP, beam = null } = sampling
    // nothing is drawn in a search
    const asDrawn = beam === null ? appliedTemperature(temperature) : 1
    this.#rules = { temperature: asDrawn, top_p: topP, top_k: topK, min_p: minP }
    this.#cuts = cutsOf(sampling)
    this.#budget = budget
    this.#whole = keepsWhole ? new DrawnTokens() : null
  }

  /** @returns the record of the delta's own tokens; undefined where all were drawn plainly */
  add(event: DeltaEvent): SamplingRecord | undefined {
    const part = this.#read(event)
    if (this.#whole !== null) {
      append(this.#whole.logprobs, part.logprobs)
      this.#whole.isKnown &&= part.isKnown
      append(this.#whole.counts, part.counts)
      append(this.#whole.ids, part.ids)
      for (const name of part.unmodelled) this.#whole.unmodelled.add(name)
    }
    if (event.drawn === undefined) return undefined
    this.#isPlain = false
    return this.#recordOf(part)
  }

  /** @returns undefined where all tokens were drawn plainly, or nothing is kept */
  whole(): SamplingRecord | undefined {
    return this.#isPlain || this.#whole === null ? undefined : this.#recordOf(this.#whole)
  }

  #read({ tokenIds, logprobs, drawn }: DeltaEvent): DrawnTokens {
    const tokens = new DrawnTokens()
    for (let t = 0; t < tokenIds.length; t++) {
      const draw = drawn?.[t] ?? null
      const set = draw?.keptIds ?? []
      const isTold = this.#budget.take(set.length)
      tokens.isKnown &&= draw?.logprob !== null
      tokens.logprobs.push(Math.min(0, draw?.logprob ?? logprobs[t]?.logprob ?? 0))
      tokens.counts.push(isTold ? set.length : 0)
      if (isTold) append(tokens.ids, set)
      for (const name of [...(draw?.unmodelled ?? []), ...(isTold ? [] : this.#cuts)]) tokens.unmodelled.add(name)
    }
    return tokens
  }

  #recordOf({ logprobs, isKnown, counts, ids, unmodelled }: DrawnTokens): SamplingRecord {
    return { ...this.#rules, logprobs: isKnown ? logprobs : null, kept: { counts, ids }, unmodelled: [...unmodelled] }
  }
}

/** What may have cut a set; where the request has no such rule it was its grammar. */
function cutsOf({
  topK,
  topP,
  minP,
  minTokens = 0,
  allowedTokenIds = null,
  badWords = [],
  xtc = null,
}: RepeatedSampling): readonly string[] {
  const cuts = Object.entries({
    top_k: topK > 0,
    top_p: topP < 1,
    min_p: minP > 0,
    xtc_probability: xtc !== null,
    allowed_token_ids: allowedTokenIds !== null,
    bad_words: badWords.length > 0,
    min_tokens: minTokens > 0,
  }).flatMap(([field, isSet]) => (isSet ? [field] : []))
  return cuts.length > 0 ? cuts : ['structured_outputs']
}

/** Recorders of the choices of one request. */
export function createRecorders(
  count: number,
  sampling: RepeatedSampling,
  { isStream }: { readonly isStream: boolean },
): SamplingRecorder[] {
  const budget = new SetBudget()
  return Array.from({ length: count }, () => new SamplingRecorder(sampling, { budget, keepsWhole: !isStream }))
}
