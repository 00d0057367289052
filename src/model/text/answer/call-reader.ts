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
}

/** Name first, then arguments that begin an object: nearly every call. Others wait for their end. */
const HEAD = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*$/

export class CallReader {
  #text = ''
  #depth = 0
  #isInString = false
  #isEscaped = false
  #hasHead = false
  #isInArguments = false

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
        name = this.#readHead()
        this.#hasHead = name !== null
        this.#isInArguments = this.#hasHead
      }
      this.#text += character
      if (this.#isInArguments) given += character
      this.#step(character)
      if (this.#isInArguments && this.#depth === 1) this.#isInArguments = false
      if (this.#depth === 0 && character === '}' && !this.#isInString) {
        return { ...this.#atEnd(name, given), rest: piece.slice(i + 1) }
      }
    }
    return { name, arguments: given, rest: null }
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

  #readHead(): string | null {
    const [, quoted] = HEAD.exec(this.#text) ?? []
    const name = quoted === undefined ? null : parse(quoted)
    return typeof name === 'string' ? name : null
  }

  /** A call in another order of fields is known only now. */
  #atEnd(name: string | null, given: string): { name: string | null; arguments: string } {
    if (this.#hasHead) return { name, arguments: given }
    const call = parseCall(this.#text)
    return call === null
      ? { name: null, arguments: '' }
      : { name: call.name, arguments: JSON.stringify(call.arguments) }
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
