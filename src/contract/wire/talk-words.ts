/**
 * Talk: how a client that holds a conversation (`trainyard chat`, Play) samples a model of one's own where nobody says how, and
 * where it ends an answer that goes round in circles. The API itself has OpenAI's defaults, and ends nothing.
 */

/** Where the files of the base model say nothing (`sampling` of a base model). */
export const TALK_SAMPLING = { temperature: 0.8, top_p: 0.95 } as const

/** Least characters that the repetitions take together, fewest of them, and the longest text that is repeated. */
const [LEAST_REPEATED, FEWEST, LONGEST] = [160, 4, 200]

/** Characters at the end of a text that `isRepeating` looks at. */
export const REPEATING_CHARACTERS = 2 * FEWEST * LONGEST

/** Whether a text ends with the same again and again. @example isRepeating('so it is. '.repeat(20)) // true */
export function isRepeating(text: string): boolean {
  for (let size = 1; size <= LONGEST && size * FEWEST <= text.length; size += 1) {
    const times = Math.max(FEWEST, Math.ceil(LEAST_REPEATED / size))
    const from = text.length - size * times
    // each character equals the one that stands a length before it
    if (from < 0) continue
    let at = text.length - 1
    while (at >= from + size && text[at] === text[at - size]) at -= 1
    if (at < from + size) return true
  }
  return false
}
