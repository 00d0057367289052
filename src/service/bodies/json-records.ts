/**
 * Reads an object of a list at once when it has the keys of the one before in the same order and plain values: the hundred
 * thousand token log-probabilities of a body differ in nothing else. Whatever looks different is left to the general reader.
 *
 * Keys are compared as bytes, so nothing that the general reader refuses (duplicate keys, `__proto__`) can come in here: it has
 * read an object with these keys before.
 */
import { isDelimiter, NUMBER, readShortNumber, SHORT_NUMBER } from './json-tokens.js'

type Plain = string | number | boolean | null
/** A value of a record: plain, or a list of short numbers. */
type RecordValue = Plain | readonly number[]

export interface RecordReader {
  /** Remembers the keys of an object that was just read. */
  learn(object: Readonly<Record<string, unknown>>): void
  /** Reads the object that starts at `start`. @returns the index behind it, or 0 if it must be read in another way */
  read(chunk: Buffer, start: number): number
  /** Of the last object that was read: itself, the objects and arrays in it and it, the values in it, bytes of its strings. */
  readonly value: { readonly [key: string]: RecordValue }
  readonly containers: number
  readonly values: number
  readonly stringBytes: number
}

const MAX_KEYS = 8
/** Longest number that is read here, bytes. */
const MAX_NUMBER = 32
const SPACE = 0x20

/** @param textOf ASCII text of the chunk that is being read */
export function createRecordReader(textOf: (start: number, end: number) => string): RecordReader {
  return new ListRecordReader(textOf)
}

class ListRecordReader implements RecordReader {
  readonly #textOf: (start: number, end: number) => string
  #keys: readonly string[] = []
  /** The keys between their quotes, as bytes. */
  #quoted: readonly Uint8Array[] = []
  value: { readonly [key: string]: RecordValue } = {}
  containers = 0
  values = 0
  stringBytes = 0
  /** Of the value that was just read: what it is, and where it ends; -1 if it is none of the plain ones. */
  #read: RecordValue = null
  #end = 0

  constructor(textOf: (start: number, end: number) => string) {
    this.#textOf = textOf
  }

  learn(object: Readonly<Record<string, unknown>>): void {
    const keys = Object.keys(object)
    if (keys.length === 0 || keys.length > MAX_KEYS) return
    if (keys.length === this.#keys.length && keys.every((key, i) => key === this.#keys[i])) return
    if (!keys.every((key) => /^[a-z_]{1,40}$/i.test(key))) return
    this.#keys = keys
    this.#quoted = keys.map((key) => Buffer.from(`"${key}"`, 'latin1'))
  }

  read(chunk: Buffer, start: number): number {
    const keys = this.#keys
    if (keys.length === 0) return 0
    const value: Record<string, RecordValue> = {}
    this.containers = 1
    this.values = 0
    this.stringBytes = 0
    let i = start + 1
    for (let k = 0; k < keys.length; k += 1) {
      if (k > 0) {
        if (chunk[i] !== 0x2c) return 0
        i += 1
        if (chunk[i] === SPACE) i += 1
      }
      const quoted = this.#quoted[k] as Uint8Array
      for (let j = 0; j < quoted.length; j += 1) if (chunk[i + j] !== quoted[j]) return 0
      i += quoted.length
      if (chunk[i] !== 0x3a) return 0
      i += 1
      if (chunk[i] === SPACE) i += 1
      this.#readValue(chunk, i)
      if (this.#end < 0) return 0
      value[keys[k] as string] = this.#read
      i = this.#end
    }
    if (chunk[i] !== 0x7d) return 0
    this.value = value
    return i + 1
  }

  #readValue(chunk: Buffer, start: number): void {
    this.values += 1
    const byte = chunk[start]
    if (byte === 0x22) this.#readText(chunk, start + 1)
    else if (byte === 0x5b) this.#readNumbers(chunk, start)
    else if (byte === 0x6e) this.#readNull(chunk, start)
    else this.#readNumber(chunk, start)
  }

  /** Plain ASCII without escapes. */
  #readText(chunk: Buffer, start: number): void {
    let i = start
    for (; i < chunk.length; i += 1) {
      const byte = chunk[i] as number
      if (byte === 0x22) break
      if (byte === 0x5c || byte < 0x20 || byte > 0x7f) {
        this.#end = -1
        return
      }
    }
    if (i >= chunk.length) {
      this.#end = -1
      return
    }
    this.stringBytes += i - start
    this.#read = this.#textOf(start, i)
    this.#end = i + 1
  }

  #readNull(chunk: Buffer, start: number): void {
    const isNull = chunk[start + 1] === 0x75 && chunk[start + 2] === 0x6c && chunk[start + 3] === 0x6c
    this.#read = null
    this.#end = isNull && isDelimiter(chunk[start + 4] ?? 0) ? start + 4 : -1
  }

  #readNumber(chunk: Buffer, start: number): void {
    let end = start
    const most = Math.min(chunk.length, start + MAX_NUMBER)
    while (end < most && !isDelimiter(chunk[end] as number)) end += 1
    this.#end = -1
    if (end === most || end === start) return
    let number = end - start <= SHORT_NUMBER ? readShortNumber(chunk, start, end) : null
    if (number === null) {
      const text = chunk.toString('latin1', start, end)
      number = NUMBER.test(text) ? Number(text) : Number.NaN
      if (!Number.isFinite(number)) return
    }
    this.#read = number
    this.#end = end
  }

  #readNumbers(chunk: Buffer, start: number): void {
    this.containers += 1
    const numbers: number[] = []
    let i = start + 1
    if (chunk[i] === 0x5d) {
      this.#read = numbers
      this.#end = i + 1
      return
    }
    for (;;) {
      this.#readNumber(chunk, i)
      if (this.#end < 0) return
      numbers.push(this.#read as number)
      this.values += 1
      i = this.#end
      const byte = chunk[i]
      if (byte === 0x5d) break
      if (byte !== 0x2c) {
        this.#end = -1
        return
      }
      i += 1
      if (chunk[i] === SPACE) i += 1
    }
    this.#read = numbers
    this.#end = i + 1
  }
}
