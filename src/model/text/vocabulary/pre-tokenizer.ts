/**
 * Cutting text into words before byte-pair merging, as data: a list of splitters applied in turn.
 *
 * Knows neither tokens nor files. Pieces are handed to a callback, so a text of megabytes is never held as a list of
 * words. Regular expressions run with the `u` flag; `\s` must be written out as Unicode white space by whoever makes
 * them, because JavaScript's `\s` differs from the one of Rust's and Oniguruma's engines (U+0085, U+FEFF).
 */

export type PieceSink = (piece: string) => void

/** Cuts one piece further; every character of the piece is emitted once and in order unless the splitter removes it. */
export type Splitter = (piece: string, emit: PieceSink) => void

/** What becomes of the text that a splitting pattern matches; names are those of `tokenizer.json`. */
export type SplitBehavior = 'isolated' | 'removed' | 'mergedWithPrevious' | 'mergedWithNext' | 'contiguous'

/**
 * V8 keeps a backtracking position per character of a greedy run, and a run of millions overflows its stack. Longer
 * pieces are matched in windows of this many characters, cut before a space or line break where there is one.
 */
const WINDOW = 2 ** 18

/** A splitter that keeps matches and the text between them as pieces of their own. */
export function splitIsolated(pattern: RegExp): Splitter {
  return windowed((piece, emit) => {
    pattern.lastIndex = 0
    let end = 0
    for (let match = pattern.exec(piece); match !== null; match = pattern.exec(piece)) {
      const length = match[0].length
      if (length === 0) {
        pattern.lastIndex += 1
        continue
      }
      if (match.index > end) emit(piece.slice(end, match.index))
      emit(match[0])
      end = match.index + length
    }
    if (end < piece.length) emit(piece.slice(end))
  })
}

/** A splitter for any of the behaviors of `tokenizer.json`; `invert` makes the text between matches the delimiter. */
export function splitWith(pattern: RegExp, behavior: SplitBehavior, invert: boolean): Splitter {
  if (behavior === 'isolated') return splitIsolated(pattern)
  return (piece, emit) => {
    const parts: { text: string; isDelimiter: boolean }[] = []
    let end = 0
    for (const match of piece.matchAll(pattern)) {
      if (match[0].length === 0) continue
      if (match.index > end) parts.push({ text: piece.slice(end, match.index), isDelimiter: invert })
      parts.push({ text: match[0], isDelimiter: !invert })
      end = match.index + match[0].length
    }
    if (end < piece.length) parts.push({ text: piece.slice(end), isDelimiter: invert })
    emitParts(parts, behavior, emit)
  }
}

function emitParts(
  parts: readonly { text: string; isDelimiter: boolean }[],
  behavior: SplitBehavior,
  emit: PieceSink,
): void {
  let pending = ''
  let pendingIsDelimiter = false
  const flush = (): void => {
    if (pending !== '') emit(pending)
    pending = ''
  }
  for (const { text, isDelimiter } of parts) {
    if (behavior === 'removed') {
      if (!isDelimiter) emit(text)
    } else if (behavior === 'contiguous') {
      if (pending !== '' && pendingIsDelimiter !== isDelimiter) flush()
      pending += text
      pendingIsDelimiter = isDelimiter
    } else if (behavior === 'mergedWithPrevious') {
      if (!isDelimiter || pendingIsDelimiter) flush()
      pending += text
      pendingIsDelimiter = isDelimiter
    } else {
      if (isDelimiter || !pendingIsDelimiter) flush()
      pending += text
      pendingIsDelimiter = isDelimiter
    }
  }
  flush()
}

/** Applies splitters one after the other, each to the pieces of the one before. */
export function chainSplitters(splitters: readonly Splitter[]): Splitter {
  return splitters.reduceRight<Splitter>(
    (rest, splitter) => (piece, emit) => splitter(piece, (part) => rest(part, emit)),
    (piece, emit) => emit(piece),
  )
}

/** A splitter that is given at most `WINDOW` characters at a time. */
function windowed(splitter: Splitter): Splitter {
  return (piece, emit) => {
    if (piece.length <= WINDOW) {
      splitter(piece, emit)
      return
    }
    let start = 0
    while (start < piece.length) {
      const end = windowEnd(piece, start)
      splitter(piece.slice(start, end), emit)
      start = end
    }
  }
}

function windowEnd(text: string, start: number): number {
  const limit = start + WINDOW
  if (limit >= text.length) return text.length
  for (let end = limit; end > start + WINDOW / 2; end--) {
    if (isWordStart(text, end)) return end
  }
  const code = text.charCodeAt(limit)
  return code >= 0xdc00 && code <= 0xdfff ? limit - 1 : limit
}

/** Between a letter or sign and a single space that precedes a letter: no known pattern joins these two. */
function isWordStart(text: string, at: number): boolean {
  return text[at] === ' ' && /[a-zA-Z]/.test(text[at + 1] ?? '') && /[a-zA-Z]/.test(text[at - 1] ?? '')
}
