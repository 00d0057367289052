/**
 * Loads xgrammar's WebAssembly build, with a ceiling on its memory.
 *
 * The package ships one UMD file inside an ES module package, which Node can neither import nor require, so the file is compiled
 * as CommonJS by hand. An invalid grammar aborts the whole instance: load it only where that harms nothing else.
 */
import { readFileSync } from 'node:fs'
import { createRequire, Module } from 'node:module'
import { dirname } from 'node:path'

type Xgrammar = typeof import('@mlc-ai/web-xgrammar')

interface WebAssemblyMemory {
  readonly buffer: ArrayBuffer
  grow(pages: number): number
}
// the library of TypeScript has it only together with the browser's
declare const WebAssembly: { readonly Memory: { readonly prototype: WebAssemblyMemory } }

const MIB = 2 ** 20
/** What the library has before it first asks for more. */
const INITIAL_BYTES = 16 * MIB

const PAGE_BYTES = 65_536
const MAX_PRINTED = 4000

export interface LoadedXgrammar {
  readonly xgrammar: Xgrammar
  /** Whether something needed more memory than it may have. The library aborts then, without a word. */
  isMemoryExhausted(): boolean
  /** WebAssembly memory that is in use. */
  memoryBytes(): number
  /** From now on memory may grow by so much at most. */
  limitGrowth(bytes: number): void
  /** What the library printed: the reason of a refusal stands there only. */
  printed(): string
}

/**
 * Loads the library into this thread.
 *
 * Side effects: this thread's console prints nothing any more, what would be printed is kept; no WebAssembly memory of this thread grows beyond `maxBytes` any more; what would need more fails.
 */
export function loadXgrammar(maxBytes: number): LoadedXgrammar {
  const memory = limitMemory(maxBytes)
  const printed = captureConsole()
  const require = createRequire(import.meta.url)
  const path = require.resolve('@mlc-ai/web-xgrammar')
  const loaded = new Module(path)
  loaded.filename = path
  loaded.paths = require.resolve.paths(dirname(path)) ?? []
  // not in Node's types, but what every loader hook uses
  const compile: unknown = Reflect.get(loaded, '_compile')
  if (typeof compile !== 'function') throw new Error('Module has no _compile in this version of Node')
  Reflect.apply(compile, loaded, [readFileSync(path, 'utf8'), path])
  return { xgrammar: loaded.exports as Xgrammar, ...memory, printed }
}

function captureConsole(): () => string {
  let text = ''
  const keep = (...words: unknown[]): void => {
    text = `${text}${words.map(String).join(' ')}\n`.slice(-MAX_PRINTED)
  }
  Object.assign(console, { log: keep, info: keep, warn: keep, error: keep })
  return () => text
}

function limitMemory(maxBytes: number): Pick<LoadedXgrammar, 'isMemoryExhausted' | 'memoryBytes' | 'limitGrowth'> {
  let wasRefused = false
  let limit = maxBytes
  let size = INITIAL_BYTES
  const { grow } = WebAssembly.Memory.prototype
  WebAssembly.Memory.prototype.grow = function growWithin(this: WebAssemblyMemory, pages: number): number {
    const wanted = this.buffer.byteLength + pages * PAGE_BYTES
    wasRefused = wanted > limit
    if (wasRefused) throw new RangeError('memory limit of a grammar reached')
    const before = grow.call(this, pages)
    size = wanted
    return before
  }
  return {
    isMemoryExhausted: () => wasRefused,
    memoryBytes: () => size,
    limitGrowth: (bytes) => {
      limit = Math.min(maxBytes, size + bytes)
    },
  }
}
