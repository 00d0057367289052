/**
 * Regular expressions that come with a model's files, under a limit of time: one that backtracks would hold up its thread for ever.
 *
 * The patterns of the published tokenizers are known (`named-pre-tokenizers.ts`) and run as they are. V8 leaves a running pattern when
 * the time of a `vm` script is over; a call costs a tenth of a millisecond, so short pieces, which end in any case, go without.
 */
import { createContext, Script } from 'node:vm'
import { TokenizerError } from '#base/errors/errors.js'
import { systemClock, watchProcessorTime } from '#base/util/clock.js'
import { knownPatterns } from './named-pre-tokenizers.js'
import type { Splitter } from './pre-tokenizer.js'

/** Pieces of so few characters end soon whatever the pattern: a state for every subset of them is few. */
const SHORT = 12
/** Processor time far beyond what a pattern of use takes: these cut some megabytes a second. */
const LEAST_MS = 5000
const MS_PER_CHARACTER = 0.02

/** How published tokenizers write English contractions, and the table of known patterns. */
const PUBLISHED_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
const CONTRACTIONS = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"

const known = new Set([...knownPatterns].map(spelling))

/** Whether a pattern is one that is known to end. */
export function isKnownPattern(source: string): boolean {
  return known.has(spelling(source))
}

/** One way of writing for each: `/` with or without a backslash, contractions in a group of their own or not. */
function spelling(source: string): string {
  return source
    .replaceAll(PUBLISHED_CONTRACTIONS, `(?:${CONTRACTIONS})`)
    .replaceAll(`(?:${CONTRACTIONS})|`, `${CONTRACTIONS}|`)
    .replaceAll('\\/', '/')
}

const sandbox = { work: (): void => undefined }
createContext(sandbox)
const script = new Script('work()')

/**
 * Does what ends in any case once more, for longer, where the time was over because the machine had something else to do.
 *
 * @param leastMs of processor time, beside what the text's length adds
 * @throws {TokenizerError} `pattern_too_slow`
 */
function within<T>(length: number, work: () => T, leastMs: number): T {
  if (length <= SHORT) return work()
  const limitMs = leastMs + length * MS_PER_CHARACTER
  const usedMs = watchProcessorTime('own', systemClock)
  const done: T[] = []
  sandbox.work = () => void done.push(work())
  for (let timeout = Math.ceil(limitMs); ; timeout *= 2) {
    try {
      script.runInContext(sandbox, { timeout })
      return done[0] as T
    } catch (cause) {
      if (!isTimeout(cause)) throw cause
      if (usedMs() < limitMs) continue
      throw new TokenizerError(
        'pattern_too_slow',
        `a regular expression of the model's tokenizer came to no end on a text of ${length} characters`,
        { hint: 'it may backtrack without bound: use the tokenizer that the model was published with', cause },
      )
    }
  }
}

function isTimeout(error: unknown): boolean {
  // of the context's own realm: no instance of this one's Error
  return typeof error === 'object' && error !== null && Reflect.get(error, 'code') === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
}

/** The splitter under a limit: pieces are handed on when all of them are found. */
export function limitSplitter(splitter: Splitter, leastMs = LEAST_MS): Splitter {
  return (piece, emit) => {
    const cut = (): string[] => {
      const pieces: string[] = []
      splitter(piece, (part) => void pieces.push(part))
      return pieces
    }
    const found = within(piece.length, cut, leastMs)
    for (const part of found) emit(part)
  }
}

/** The normalizer under a limit. */
export function limitNormalizer(normalize: (text: string) => string): (text: string) => string {
  return (text) => within(text.length, () => normalize(text), LEAST_MS)
}
