/**
 * Models that look words up: WordLevel knows whole words, WordPiece the longest beginning of what is left of one.
 *
 * As the Rust crate `tokenizers` (`models/wordlevel`, `models/wordpiece`): a word of which a part is unknown is unknown as a whole.
 */

export interface WordVocabulary {
  readonly tokenToId: ReadonlyMap<string, number>
  readonly unknownId: number
}

/** Returns a function from a word to its token ids. */
export function createWordLevel({ tokenToId, unknownId }: WordVocabulary): (word: string) => number[] {
  return (word) => [tokenToId.get(word) ?? unknownId]
}

/**
 * Returns a function from a word to its token ids.
 *
 * @param prefix spells what goes on in a word, `##`
 * @param maxLength in characters; a longer word is unknown
 */
export function createWordPiece(
  { tokenToId, unknownId }: WordVocabulary,
  { prefix, maxLength }: { readonly prefix: string; readonly maxLength: number },
): (word: string) => number[] {
  return (word) => {
    const characters = Array.from(word)
    if (characters.length > maxLength) return [unknownId]
    const ids: number[] = []
    for (let start = 0; start < characters.length; ) {
      let end = characters.length
      let id: number | undefined
      for (; end > start; end--) {
        id = tokenToId.get((start > 0 ? prefix : '') + characters.slice(start, end).join(''))
        if (id !== undefined) break
      }
      if (id === undefined) return [unknownId]
      ids.push(id)
      start = end
    }
    return ids
  }
}
