/**
 * One tool call as it is written: a JSON object with a name and arguments, read character by character.
 *
 * It is a call once it names a known tool and its arguments have begun as an object does; from then on they are given on as they come, in
 * the model's own text, so that a stream shows them while they are written. Knows nothing of the marks around a call.
 */
import { isJsonObject, type JsonValue } from '#base/util/json.js'

// The values of an object as they stand in its JSON text, which parsing would lose. Knows valid JSON only.

/** @param text of an object. @returns the text of each value by its key; of a key that occurs twice the last, which is the one that counts */
function valueSpans(text: string): ReadonlyMap<string, string> {
  const spans = new Map<string, string>()
  let depth = 0
  let key: string | null = null
  let start = -1
  let lastString = ''
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (character === '"') {
      const end = closingQuote(text, i)
      if (depth === 1 && key === null) lastString = text.slice(i, end + 1)
      i = end
    } else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') depth--
    else if (character === ':' && depth === 1 && key === null) {
      key = JSON.parse(lastString) as string
      start = i + 1
      continue
    }
    const isEnd = (character === ',' && depth === 1) || (character === '}' && depth === 0)
    if (!isEnd || key === null) continue
    spans.set(key, text.slice(start, i).trim())
    key = null
  }
  return spans
}

function closingQuote(text: string, opening: number): number {
  for (let i = opening + 1; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === '"') return i
  }
  return text.length
}

/** What one piece of text added to a call. */
export interface CallProgress {
  /** Set once, before any arguments. */
  readonly name: string | null
  /** Further text of the arguments. */
  readonly arguments: string
  /** Text behind the end of the object; null while the object is open. */
  readonly rest: string | null
  /** At its end: whether it is a call. */
  readonly isCall: boolean
}

/** Name first, then arguments that begin an object: nearly every call. Others wait for their end. */
const HEAD = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*$/

export class CallReader {
  readonly #isTool: (name: string) => boolean
  #text = ''
  #depth = 0
  #isInString = false
  #isEscaped = false
  /** `begun` has a head whose arguments may yet be no object: `{city: …` */
  #head: 'none' | 'begun' | 'shown' | 'refused' = 'none'
  #name = ''
  #isInArguments = false
  /** Arguments that are not given on yet. */
  #held = ''

  /** @param isTool whether a call of this name is one: any other object may be an answer */
  constructor(isTool: (name: string) => boolean) {
    this.#isTool = isTool
  }

  /** Everything read so far. */
  get text(): string {
    return this.#text
  }

  push(piece: string): CallProgress {
    let name: string | null = null
    let given = ''
    for (let i = 0; i < piece.length; i++) {
      const character = piece[i] as string
      if (this.#head === 'begun' && !isBlank(character)) {
        // an object goes on with a key, or ends
        this.#head = character === '"' || character === '}' ? 'shown' : 'refused'
        if (this.#head === 'shown') name = this.#name
      }
      if (character === '{' && !this.#isInString && this.#depth === 1 && this.#head === 'none') {
        this.#readHead()
      }
      this.#text += character
      if (this.#isInArguments) this.#held += character
      this.#step(character)
      if (this.#isInArguments && this.#depth === 1) this.#isInArguments = false
      if (this.#head === 'shown') {
        given += this.#held
        this.#held = ''
      }
      if (this.#depth === 0 && character === '}' && !this.#isInString) {
        return { ...this.#atEnd(name, given), rest: piece.slice(i + 1) }
      }
    }
    return { name, arguments: given, rest: null, isCall: false }
  }

  #step(character: string): void {
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false
      else if (character === '\\') this.#isEscaped = true
      else if (character === '"') this.#isInString = false
    } else if (character === '"') this.#isInString = true
    else if (character === '{' || character === '[') this.#depth++
    else if (character === '}' || character === ']') this.#depth--
  }

  #readHead(): void {
    const [, quoted] = HEAD.exec(this.#text) ?? []
    const name = quoted === undefined ? null : parse(quoted)
    if (typeof name !== 'string' || !this.#isTool(name)) return
    this.#name = name
    this.#head = 'begun'
    this.#isInArguments = true
  }

  /** A call in another order of fields, without arguments, or with those in a text, is known only now. */
  #atEnd(name: string | null, given: string): Omit<CallProgress, 'rest'> {
    if (this.#head === 'shown') return { name, arguments: given, isCall: true }
    const call = parseCall(this.#text)
    if (call === null || !this.#isTool(call.name)) return { name: null, arguments: '', isCall: false }
    return { ...call, isCall: true }
  }
}

/** A whole call, with its arguments as they were written. @returns null if it is none */
export function parseCall(text: string): { readonly name: string; readonly arguments: string } | null {
  const value = parse(text)
  if (!isJsonObject(value) || typeof value['name'] !== 'string') return null
  const name = value['name']
  const field = ['arguments', 'parameters'].find((key) => (value[key] ?? null) !== null)
  if (field === undefined) return { name, arguments: '{}' }
  const given = value[field] ?? null
  // some models write the object as a text
  const written = typeof given === 'string' ? given : (valueSpans(text).get(field) ?? '')
  return isJsonObject(parse(written)) ? { name, arguments: written } : null
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\n' || character === '\t' || character === '\r'
}

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
