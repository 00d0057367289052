/**
 * One tool call as it is written: a JSON object with a name and arguments, read character by character.
 *
 * The arguments are given on as they come, so that a stream shows them while they are written. Knows nothing of the marks
 * around a call.
 */
import type { JsonValue } from '#base/util/json.js'
import { isJsonObject } from '#base/util/json.js'

/** What one piece of text added to a call. */
export interface CallProgress {
  /** Set once, before any arguments. */
  readonly name: string | null
  /** Further text of the arguments, JSON when put together. */
  readonly arguments: string
  /** Text behind the end of the object; null while the object is open. */
  readonly rest: string | null
  /** At its end: whether it is a call. */
  readonly isCall: boolean
}

/** Name first, then arguments that begin an object: nearly every call. Others wait for their end. */
const NAME = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")$/
const HEAD = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*$/

export class CallReader {
  readonly #isMarked: boolean
  #text = ''
  #depth = 0
  #isInString = false
  #isEscaped = false
  #hasName = false
  #hasHead = false
  #isInArguments = false

  /** @param isMarked whether a mark said that a call comes: its name is told as soon as it is there. Else an object with a name may be an answer. */
  constructor(isMarked: boolean) {
    this.#isMarked = isMarked
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
      if (character === '{' && !this.#isInString && this.#depth === 1 && !this.#hasHead) {
        const read = this.#read(HEAD)
        this.#hasHead = read !== null
        this.#isInArguments = this.#hasHead
        if (!this.#hasName) name = read
        this.#hasName ||= read !== null
      }
      this.#text += character
      if (this.#isInArguments) given += character
      this.#step(character)
      if (character === '"' && this.#isMarked && this.#depth === 1 && !this.#hasName && !this.#isInString) {
        name = this.#read(NAME)
        this.#hasName = name !== null
      }
      if (this.#isInArguments && this.#depth === 1) this.#isInArguments = false
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

  #read(pattern: RegExp): string | null {
    const [, quoted] = pattern.exec(this.#text) ?? []
    const name = quoted === undefined ? null : parse(quoted)
    return typeof name === 'string' ? name : null
  }

  /** A call in another order of fields, or without arguments, is known only now. */
  #atEnd(name: string | null, given: string): Omit<CallProgress, 'rest'> {
    if (this.#hasHead) return { name, arguments: given, isCall: true }
    const call = parseCall(this.#text)
    if (call === null) return { name, arguments: '', isCall: false }
    const isNew = !this.#hasName
    return { name: isNew ? call.name : name, arguments: JSON.stringify(call.arguments), isCall: true }
  }
}

/** A whole call. @returns null if it is none */
export function parseCall(text: string): { readonly name: string; readonly arguments: JsonValue } | null {
  const value = parse(text)
  if (!isJsonObject(value) || typeof value['name'] !== 'string') return null
  const given = value['arguments'] ?? value['parameters'] ?? {}
  return isJsonObject(given) ? { name: value['name'], arguments: given } : null
}

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
