/**
 * Grammars that answers of one base model are held to: compiled when they are first asked for, lent to a request, given back at its end.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import { REASONING_END } from '#formats/answers/answer-format.js'
import { createStreamDecoder } from '#model/text/stream-decoder.js'
import type { TextModel } from '#model/text/text-model.js'
import type { Tokenizer } from '#model/text/tokenizer.js'
import type { GenerationListener } from '../engine/generation.js'
import type { TokenMask } from '../engine/sampling/token-mask.js'
import { compileGrammar } from '../grammar/grammar.js'
import { createGrammarCache, type GrammarCache, type GrammarLease } from '../grammar/grammar-cache.js'
import { type GrammarSpec, withReach } from '../grammar/grammar-spec.js'
import { createTokenTable, type TokenTable } from '../grammar/token-table.js'

/** Compiled grammars kept at once; each is a thread with its own copy of the vocabulary, about 50 MB at 49,152 tokens. */
const MAX_GRAMMARS = 8

/** The vocabulary is read when the first grammar comes: most hosts never see one. */
export function createGrammars(textModel: TextModel, vocabularySize: number, clock: Clock): AnswerGrammars {
  let table: Promise<TokenTable> | null = null
  let longest: number | null = null
  const readTable = (): Promise<TokenTable> => {
    table ??= createTokenTable(textModel.tokenizer, vocabularySize, textModel.eosTokenIds)
    return table
  }
  const cache = createGrammarCache({
    maxGrammars: MAX_GRAMMARS,
    compile: async (spec) => compileGrammar(spec, await readTable(), { clock }),
  })
  return {
    lease: (spec, request) => cache.lease(spec, request),
    dispose: () => cache.dispose(),
    async within(spec, maxTokens) {
      longest ??= longestToken(await readTable())
      return withReach(spec, longest * maxTokens)
    },
  }
}

/** Grammars, and specifications for answers of at most so many tokens. */
export interface AnswerGrammars extends GrammarCache {
  within(spec: GrammarSpec, maxTokens: number): Promise<GrammarSpec>
}

/** Bytes of the longest token, which has no more characters. */
function longestToken({ offsets }: TokenTable): number {
  const starts = new Uint32Array(offsets)
  let longest = 0
  for (let id = 1; id < starts.length; id++) longest = Math.max(longest, (starts[id] ?? 0) - (starts[id - 1] ?? 0))
  return longest
}

/** Who asks for a grammar. */
export interface GrammarWish {
  readonly grammar: GrammarSpec | null
  /** Field of the request that it comes from. */
  readonly grammarParam?: string
  readonly keyId?: string
  /** Tokens that the answer can have. */
  readonly maxTokens: number
}

/** A lease, or the grammar's error with the field it comes from. */
export async function leaseFor(
  { grammar, grammarParam: param, keyId, maxTokens }: GrammarWish,
  grammars: AnswerGrammars,
  isWanted: () => boolean,
): Promise<GrammarLease | null> {
  if (grammar === null) return null
  try {
    return await grammars.lease(await grammars.within(grammar, maxTokens), {
      isWanted,
      ...(keyId === undefined ? {} : { keyId }),
    })
  } catch (error) {
    if (!(error instanceof AppError) || error.category !== 'invalid_request' || param === undefined) throw error
    const { code, message, hint, cause } = error
    throw new InvalidRequestError(code, message, { param, ...(hint === undefined ? {} : { hint }), cause })
  }
}

/** The listener, with a grammar that is given back when the request ends. */
export function releasing(listener: GenerationListener, lease: GrammarLease | null): GenerationListener {
  if (lease === null) return listener
  return {
    ...listener,
    onFinished: () => {
      lease.release()
      listener.onFinished()
    },
    onFailed: (error) => {
      lease.release()
      listener.onFailed(error)
    },
  }
}

/** A grammar holds the answer, not the reasoning before it: everything may come until the block is closed. */
export function afterReasoning(mask: TokenMask, tokenizer: Tokenizer): TokenMask {
  const decoder = createStreamDecoder(tokenizer)
  let tail = ''
  let isOver = false
  return {
    ready: () => (isOver ? (mask.ready?.() ?? null) : null),
    next: () => (isOver ? mask.next() : null),
    get isFree() {
      return !isOver || mask.isFree === true
    },
    accept: (tokenId) => {
      if (isOver) return mask.accept(tokenId)
      tail = (tail + decoder.push(tokenId)).slice(-REASONING_END.length)
      isOver = tail.endsWith(REASONING_END)
    },
  }
}
