/**
 * Reads JSON as its bytes arrive: work is spread over the chunks, and what a hostile body can cost is bounded.
 *
 * Stricter than `JSON.parse`: refuses invalid UTF-8, a byte order mark, duplicate keys, the key `__proto__`
 * (every other key becomes the object's own property and can do no harm), numbers that overflow, and nesting or counts
 * beyond the limits: those are hit while bytes arrive, before anything looks at the values. Integers beyond 2^53 keep their
 * digits where asked, and all numbers their text in the fields that a prompt or a grammar is made of (`base/json/exact-json.ts`).
 * Elements of one named top-level array can be handed over one by one, so that a body of gigabytes needs the memory of
 * one element. Source of the grammar: RFC 8259.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { keepsNumbers } from '#base/json/exact-json.js'
import { isReservedKey, readNumber } from '#base/json/exact-number.js'
import { releaseBytes } from '#base/util/release-bytes.js'
import type { BodyCounts } from '#contract/endpoints/endpoint.js'
import { createRecordReader } from './json-records.js'
import { AsciiTexts, isDelimiter, NUMBER, readShortNumber, SHORT_NUMBER } from './json-tokens.js'

/** A parsed value; `bigint` only for the top-level fields named in `int64Fields`. */
export type JsonInput =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly JsonInput[]
  | { readonly [key: string]: JsonInput }

export interface JsonReaderOptions extends BodyCounts {
  /** Deepest nesting. Default 100. */
  readonly maxDepth?: number
  /** Longest string, bytes between its quotes. Default 32 MiB. */
  readonly maxStringBytes?: number
  /** Longest text of one streamed element, bytes. Default: no limit. */
  readonly maxElementBytes?: number
  /** Elements of the top-level array `key` go to `onElement` and are not kept. */
  readonly elements?: {
    readonly key: string
    /** @param text an object or array as it was sent, valid until this returns; null for other values */
    readonly onElement: (value: JsonInput, index: number, text: Uint8Array | null) => void
  }
}

export interface JsonReader {
  /** @throws {AppError} `malformed_json` with the byte offset in the message; `request_too_large` beyond a limit */
  push(chunk: Uint8Array): void
  /** Memory that the values read so far need, bytes, roughly; falls when an element has been handed over. */
  heldBytes(): number
  /** Ends the text. @returns the value; streamed elements are left out of it */
  finish(): JsonInput
}

/** What V8 needs for a value in a list or an object, and for an object or an array of its own, bytes, roughly. */
const VALUE_BYTES = 16
const CONTAINER_BYTES = 80
const INTEGER = /^-?\d+$/
const LITERALS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
])

type Expect = 'value' | 'first-element' | 'first-key' | 'key' | 'colon' | 'separator' | 'end'
type Token = 'none' | 'string' | 'escape' | 'plain'

interface Container {
  readonly list: JsonInput[] | null
  readonly object: Record<string, JsonInput> | null
  key: string
  keyCount: number
  /** Set for the array whose elements are handed over: how many were. */
  streamed: number | null
}

/** Creates a reader for one JSON text. */
export function createJsonReader(options: JsonReaderOptions = {}): JsonReader {
  return new StreamingJsonReader(options)
}

class StreamingJsonReader implements JsonReader {
  readonly #options: JsonReaderOptions
  readonly #maxDepth: number
  readonly #maxContainers: number
  readonly #maxValues: number
  readonly #maxStringBytes: number
  readonly #stack: Container[] = []
  readonly #decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  #expect: Expect = 'value'
  #token: Token = 'none'
  #parts: Uint8Array[] = []
  /** The chunk being read, for its fast text conversion. */
  #chunk: Buffer = Buffer.alloc(0)
  readonly #texts = new AsciiTexts()
  readonly #records = createRecordReader((start, end) => this.#texts.read(this.#chunk, start, end))
  #hasEscape = false
  /** Nesting of the object or list in which numbers keep their text; 0 outside of one. */
  #keptDepth = 0
  #hasNonAscii = false
  #containers = 0
  #values = 0
  #nestedValues = 0
  readonly #names = new Set<string>()
  #partBytes = 0
  #offset = 0
  /** Bytes of the strings that are held, and where the streamed element that is open began; -1 outside of one. */
  #stringBytes = 0
  #elementStart = -1
  /** The start of that element, as far as it came in earlier chunks. */
  #elementParts: Uint8Array[] = []
  #elementIndex = 0
  #result: JsonInput = null

  constructor(options: JsonReaderOptions) {
    this.#options = options
    this.#maxDepth = options.maxDepth ?? 100
    this.#maxContainers = options.maxContainers ?? 1_000_000
    this.#maxValues = options.maxValues ?? 5_000_000
    this.#maxStringBytes = options.maxStringBytes ?? 32 * 1024 ** 2
  }

  push(bytes: Uint8Array): void {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#chunk = chunk
    let i = 0
    while (i < chunk.length) {
      if (this.#token === 'none') i = this.#readStructure(chunk, i)
      else if (this.#token === 'plain') i = this.#readPlain(chunk, i)
      else i = this.#readString(chunk, i)
    }
    if (this.#elementStart >= 0) {
      // copied: the caller may reuse its chunk
      this.#elementParts.push(Uint8Array.prototype.slice.call(chunk, Math.max(0, this.#elementStart - this.#offset)))
    }
    this.#offset += chunk.length
    this.#checkElement(0)
  }

  heldBytes(): number {
    const textBytes = this.#elementStart < 0 ? 0 : this.#offset - this.#elementStart
    return (
      textBytes + this.#stringBytes + this.#partBytes + this.#values * VALUE_BYTES + this.#containers * CONTAINER_BYTES
    )
  }

  finish(): JsonInput {
    if (this.#token === 'plain') this.#endPlain(0)
    if (this.#expect !== 'end') throw this.#problem('the text ends inside a value', 0)
    return this.#result
  }

  /** Handles one byte outside of any token, and starts tokens. Returns the next index. */
  #readStructure(chunk: Buffer, i: number): number {
    const byte = chunk[i] ?? 0
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return i + 1
    const expect = this.#expect
    if (byte === 0x22) {
      if (expect !== 'value' && expect !== 'first-element' && expect !== 'first-key' && expect !== 'key') {
        throw this.#problem('a string stands where none is expected', i)
      }
      this.#token = 'string'
      if (this.#parts.length > 0) this.#parts = []
      this.#partBytes = 0
      this.#hasEscape = false
      this.#hasNonAscii = false
      return i + 1
    }
    if (byte === 0x2c && expect === 'separator') {
      this.#expect = this.#top().object === null ? 'value' : 'key'
      return i + 1
    }
    if (byte === 0x3a && expect === 'colon') {
      this.#expect = 'value'
      return i + 1
    }
    if (byte === 0x7d || byte === 0x5d) return this.#close(byte === 0x7d, i)
    if (expect !== 'value' && expect !== 'first-element') {
      throw this.#problem(expect === 'end' ? 'something follows the value' : `${describe(expect)} is expected`, i)
    }
    if (byte === 0x7b && this.#isRecord()) {
      const end = this.#readRecord(chunk, i)
      if (end > 0) return end
    }
    if (byte === 0x7b || byte === 0x5b) {
      this.#open(byte === 0x7b, i)
      return i + 1
    }
    if (byte !== 0x2d && (byte < 0x30 || byte > 0x39) && (byte < 0x61 || byte > 0x7a)) {
      throw this.#problem('a value is expected', i)
    }
    this.#token = 'plain'
    if (this.#parts.length > 0) this.#parts = []
    this.#partBytes = 0
    return i
  }

  /** An object of a list inside of others: may look like the one before. */
  #isRecord(): boolean {
    const depth = this.#stack.length
    return depth > 2 && this.#keptDepth === 0 && depth + 2 <= this.#maxDepth && this.#stack[depth - 1]?.list != null
  }

  /** Reads an object that looks like the last one, at once. Returns the index behind it; 0 if it does not. */
  #readRecord(chunk: Buffer, i: number): number {
    const records = this.#records
    const end = records.read(chunk, i)
    if (end === 0) return 0
    this.#containers += records.containers
    if (this.#containers > this.#maxContainers) throw this.#tooMany(this.#maxContainers, 'objects and arrays')
    this.#values += records.values
    this.#nestedValues += records.values
    this.#stringBytes += records.stringBytes
    this.#checkElement(end)
    this.#put(records.value)
    return end
  }

  #open(isObject: boolean, i: number): void {
    if (this.#stack.length >= this.#maxDepth) throw this.#problem(`nesting is deeper than ${this.#maxDepth}`, i)
    this.#containers += 1
    if (this.#containers > this.#maxContainers) throw this.#tooMany(this.#maxContainers, 'objects and arrays')
    const outer = this.#stack.at(-1)
    if (outer?.streamed != null) {
      this.#elementStart = this.#offset + i
      this.#elementIndex = outer.streamed
    }
    const isStreamed =
      !isObject && this.#stack.length === 1 && this.#stack[0]?.object != null && this.#isElementsKey(this.#top().key)
    this.#stack.push({
      list: isObject ? null : [],
      object: isObject ? {} : null,
      key: '',
      keyCount: 0,
      streamed: isStreamed ? 0 : null,
    })
    const isNamed = this.#stack.length === 2 && this.#options.keptFields?.includes(outer?.key ?? '') === true
    const isKept = (this.#options.keepsNumbers === true && keepsNumbers(outer?.key ?? '')) || isNamed
    if (isKept && this.#keptDepth === 0) this.#keptDepth = this.#stack.length
    this.#expect = isObject ? 'first-key' : 'first-element'
  }

  #isElementsKey(key: string): boolean {
    return this.#options.elements?.key === key
  }

  #close(isObject: boolean, i: number): number {
    const container = this.#stack.at(-1)
    const isAllowed = this.#expect === 'separator' || this.#expect === (isObject ? 'first-key' : 'first-element')
    if (container === undefined || !isAllowed || (container.object !== null) !== isObject) {
      throw this.#problem(`"${isObject ? '}' : ']'}" stands where it is not expected`, i)
    }
    this.#stack.pop()
    if (this.#stack.length < this.#keptDepth) this.#keptDepth = 0
    this.#checkElement(i)
    if (container.object !== null && this.#isRecord()) this.#records.learn(container.object)
    this.#put(container.object ?? container.list ?? [], i + 1)
    return i + 1
  }

  /** The streamed element that ends before index `end` of the current chunk, as it was sent. */
  #elementText(end: number): Uint8Array {
    const last = this.#chunk.subarray(Math.max(0, this.#elementStart - this.#offset), end)
    return this.#elementParts.length === 0 ? last : Buffer.concat([...this.#elementParts, last])
  }

  /** Scans inside a string; the bytes between the quotes are collected, across chunks if need be. */
  #readString(chunk: Uint8Array, start: number): number {
    let i = start
    if (this.#token === 'escape') {
      this.#token = 'string'
      i += 1
    }
    for (; i < chunk.length; i += 1) {
      const byte = chunk[i] ?? 0
      if (byte === 0x22) {
        const isWhole = this.#parts.length === 0 && !this.#hasEscape && !this.#hasNonAscii
        const text = isWhole ? this.#texts.read(this.#chunk, start, i) : this.#endString(chunk.subarray(start, i), i)
        this.#token = 'none'
        // bytes of one are no UTF-8, so only an escape can say it
        if (this.#hasEscape && this.#options.refusesHalves === true) this.#checkHalves(text)
        if (this.#expect === 'key' || this.#expect === 'first-key') this.#setKey(text, i)
        else this.#put(text)
        return i + 1
      }
      if (byte === 0x5c) {
        this.#hasEscape = true
        i += 1
        if (i >= chunk.length) this.#token = 'escape'
      } else if (byte < 0x20) {
        throw this.#problem('a control character stands unescaped in a string', i)
      } else if (byte > 0x7f) {
        this.#hasNonAscii = true
      }
    }
    this.#keepPart(chunk, start)
    return chunk.length
  }

  /** Holds the start of a token whose end is in a later chunk. Copied: the caller may reuse its chunk. */
  #keepPart(chunk: Uint8Array, start: number): void {
    this.#partBytes += chunk.length - start
    if (this.#partBytes > this.#maxStringBytes) {
      throw this.#problem(`a value is longer than ${this.#maxStringBytes} bytes`, start)
    }
    this.#parts.push(Uint8Array.prototype.slice.call(chunk, start))
  }

  /** @throws {InvalidRequestError} `invalid_value` naming the place; an unknown name of a field at the top is named and ignored */
  #checkHalves(text: string): void {
    const [half] = /\p{Surrogate}/u.exec(text) ?? []
    if (half === undefined) return
    const isKey = this.#expect === 'key' || this.#expect === 'first-key'
    if (isKey && this.#stack.length === 1) return
    const places = isKey ? this.#stack.slice(0, -1) : this.#stack
    const path = places
      .map(({ list, key }) => (list === null ? `.${key}` : `[${list.length}]`))
      .join('')
      .replace(/^\./, '')
    const what = isKey ? `${path} has a name with` : `${path} has`
    const spelled = `\\u${half.charCodeAt(0).toString(16)}`
    throw new InvalidRequestError(
      'invalid_value',
      `${what} half of a surrogate pair (${spelled}), which is no character`,
      {
        param: path,
        hint: 'send both halves, or the character itself; a text that was cut within one ends before it',
      },
    )
  }

  #endString(last: Uint8Array, i: number): string {
    const bytes = this.#parts.length === 0 ? last : Buffer.concat([...this.#parts, last])
    this.#parts = []
    try {
      const raw = this.#hasNonAscii
        ? this.#decoder.decode(bytes)
        : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
      return this.#hasEscape ? String(JSON.parse(`"${raw}"`)) : raw
    } catch {
      throw this.#problem(this.#hasNonAscii ? 'a string is not valid UTF-8' : 'a string has an invalid escape', i)
    }
  }

  #setKey(key: string, i: number): void {
    const container = this.#top()
    if (key === '__proto__' || isReservedKey(key))
      throw this.#problem(`the key ${JSON.stringify(key.slice(0, 100))} is not allowed`, i)
    if (container.object !== null && Object.hasOwn(container.object, key)) {
      throw this.#problem(`the key "${key.slice(0, 100)}" occurs twice in one object`, i)
    }
    container.key = key
    container.keyCount += 1
    const { maxKeys, maxNames } = this.#options
    if (maxKeys !== undefined && container.keyCount > maxKeys) throw this.#tooMany(maxKeys, 'keys in one object')
    if (maxNames !== undefined && this.#names.add(key).size > maxNames) throw this.#tooMany(maxNames, 'different keys')
    this.#expect = 'colon'
  }

  /** Scans a number or a literal: everything up to the next delimiter. */
  #readPlain(chunk: Buffer, start: number): number {
    let i = start
    while (i < chunk.length && !isDelimiter(chunk[i] ?? 0)) i += 1
    if (i === chunk.length) {
      this.#keepPart(chunk, start)
      return i
    }
    if (this.#parts.length === 0 && i - start <= SHORT_NUMBER && this.#keptDepth === 0) {
      const number = readShortNumber(chunk, start, i)
      if (number !== null) {
        this.#token = 'none'
        this.#put(number)
        return i
      }
    }
    if (this.#parts.length === 0) this.#setPlain(chunk.toString('latin1', start, i), i)
    else {
      this.#parts.push(chunk.subarray(start, i))
      this.#endPlain(i)
    }
    return i
  }

  #endPlain(end: number): void {
    const text = Buffer.concat(this.#parts).toString('latin1')
    this.#parts = []
    this.#setPlain(text, end)
  }

  /** @param end index behind it */
  #setPlain(text: string, end: number): void {
    this.#token = 'none'
    const literal = LITERALS.get(text)
    if (literal !== undefined) {
      this.#put(literal)
      return
    }
    if (!NUMBER.test(text)) throw this.#problem(`"${text.slice(0, 40)}" is not a JSON value`, end - text.length)
    const number = Number(text)
    if (!Number.isFinite(number)) {
      throw this.#problem(`the number ${text.slice(0, 40)} is out of range`, end - text.length)
    }
    if (this.#keptDepth > 0) {
      this.#put(readNumber(text))
      return
    }
    const isBig = !Number.isSafeInteger(number) && INTEGER.test(text) && this.#isInt64Field()
    this.#put(isBig ? BigInt(text) : number)
  }

  #isInt64Field(): boolean {
    return this.#stack.length === 1 && this.#options.int64Fields?.includes(this.#top().key) === true
  }

  /** @param end index behind an object or array that ends; absent for other values */
  #put(value: JsonInput, end?: number): void {
    this.#values += 1
    this.#partBytes = 0
    if (this.#values > this.#maxValues) throw this.#tooMany(this.#maxValues, 'values')
    if (this.#stack.length > 2) {
      this.#nestedValues += 1
      const limit = this.#options.maxNestedValues ?? this.#maxValues
      if (this.#nestedValues > limit) throw this.#tooMany(limit, 'nested values')
    }
    if (typeof value === 'string') this.#stringBytes += value.length
    const container = this.#stack.at(-1)
    if (container === undefined) {
      this.#result = value
      this.#expect = 'end'
      return
    }
    this.#expect = 'separator'
    if (container.object !== null) container.object[container.key] = value
    else if (container.streamed !== null) {
      const text = end === undefined ? null : this.#elementText(end)
      this.#options.elements?.onElement(value, container.streamed, text)
      container.streamed += 1
      this.#containers = 0
      this.#values = 0
      this.#nestedValues = 0
      this.#names.clear()
      this.#stringBytes = 0
      this.#elementStart = -1
      if (this.#elementParts.length > 0) {
        // each as long as a group: a body of many would leave many of them
        if (text !== null) releaseBytes(text)
        this.#elementParts.forEach(releaseBytes)
        this.#elementParts = []
      }
    } else container.list?.push(value)
  }

  #top(): Container {
    const container = this.#stack.at(-1)
    if (container === undefined) throw this.#problem('a separator stands outside of any object or array', 0)
    return container
  }

  /** @param i how far the current chunk is read */
  #checkElement(i: number): void {
    const maxBytes = this.#options.maxElementBytes
    if (maxBytes === undefined || this.#elementStart < 0 || this.#offset + i - this.#elementStart <= maxBytes) return
    const path = `${this.#options.elements?.key ?? ''}[${this.#elementIndex}]`
    throw new AppError('too_large', 'request_too_large', `${path} is larger than ${maxBytes} bytes`, {
      param: path,
      details: { max_bytes: maxBytes },
    })
  }

  #tooMany(limit: number, what: string): AppError {
    const { elements } = this.#options
    const where = this.#elementStart < 0 ? 'the body' : `${elements?.key ?? ''}[${this.#elementIndex}]`
    return new AppError('too_large', 'request_too_large', `${where} has more than ${limit} ${what}`, {
      details: { max_count: limit },
    })
  }

  #problem(what: string, i: number): InvalidRequestError {
    return new InvalidRequestError('malformed_json', `the body is not valid JSON at byte ${this.#offset + i}: ${what}`)
  }
}

function describe(expect: Expect): string {
  switch (expect) {
    case 'first-key':
    case 'key':
      return 'a key'
    case 'colon':
      return '":"'
    case 'separator':
      return '"," or the end'
    default:
      return 'a value'
  }
}
