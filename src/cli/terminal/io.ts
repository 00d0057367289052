/**
 * The streams of one run: what they can do (terminal, width, colour, Unicode) and writing to them.
 *
 * Everything the command line prints passes through here, so tests hand in their own. Decides
 * nothing about content, but that a terminal is given no commands except those of our own decoration.
 */
import { fstatSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { Chalk, type ChalkInstance, type ColorSupportLevel, supportsColor, supportsColorStderr } from 'chalk'
import type { Environment } from '#base/environment.js'
import { keepDecoration } from './sanitize.js'

/** One output stream. */
export interface Sink {
  readonly isTerminal: boolean
  /** Columns of a terminal at this moment; 80 when unknown. */
  readonly width: number
  readonly chalk: ChalkInstance
  /** Whether symbols beyond ASCII can be shown. */
  readonly isUnicode: boolean
  write(text: string): void
}

export interface Io {
  readonly stdout: Sink
  readonly stderr: Sink
  readonly stdin: {
    readonly isTerminal: boolean
    readonly stream: Readable
    /** Everything up to the end as UTF-8 text. */
    readAll(): Promise<string>
    /**
     * Whether anything, or the end, comes before `waitMs` are over. When nothing does, the stream is let go, so that a
     * program that starts this one and never closes its end keeps nobody waiting.
     */
    hasInput(waitMs: number): Promise<boolean>
    /** A socket: what a program hands to those it starts, where a shell would hand a file or a pipe. */
    readonly isSocket: boolean
  }
}

/** The part of a process that `createIo` needs. */
export interface ProcessStreams {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: OutputStream
  readonly stderr: OutputStream
}

interface OutputStream {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

/**
 * Wraps the process's streams.
 *
 * @param color false forces colour off and true asks for it; null leaves it to the terminal, NO_COLOR and FORCE_COLOR. Never in a pipe
 */
export function createIo(streams: ProcessStreams, color: boolean | null, environment: Environment): Io {
  const level = (support: typeof supportsColor) => colorLevel(support, color, environment)
  return {
    stdout: createSink(streams.stdout, level(supportsColor)),
    stderr: createSink(streams.stderr, level(supportsColorStderr)),
    stdin: {
      isTerminal: streams.stdin.isTTY === true,
      stream: streams.stdin,
      readAll: () => readAll(streams.stdin),
      hasInput: (waitMs) => hasInput(streams.stdin, waitMs),
      isSocket: isSocket(streams.stdin),
    },
  }
}

/** chalk knows FORCE_COLOR, but not NO_COLOR (https://no-color.org); of both, the first counts, as in Node. */
function colorLevel(
  support: typeof supportsColor,
  color: boolean | null,
  { NO_COLOR: no = '', FORCE_COLOR: force = '' }: Environment,
): ColorSupportLevel {
  if (color === false || (color === null && no !== '' && force === '')) return 0
  const level = support === false ? 0 : support.level
  return color === true && level === 0 ? 1 : level
}

/** Reads a stream to its end as UTF-8. */
export async function readAll(stream: Readable): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream) {
    text += typeof chunk === 'string' ? chunk : decoder.decode(chunk as Uint8Array, { stream: true })
  }
  return text + decoder.decode()
}

function hasInput(stream: Readable, waitMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const finish = (isThere: boolean): void => {
      clearTimeout(timer)
      for (const name of ['readable', 'end', 'error']) stream.off(name, onInput)
      if (!isThere) stream.destroy()
      resolve(isThere)
    }
    const onInput = (): void => finish(true)
    const timer = setTimeout(() => finish(stream.readableLength > 0 || stream.readableEnded), waitMs)
    for (const name of ['readable', 'end', 'error']) stream.on(name, onInput)
    if (stream.readableEnded || stream.destroyed) finish(true)
  })
}

function isSocket(stream: object): boolean {
  if (!('fd' in stream) || typeof stream.fd !== 'number') return false
  try {
    return fstatSync(stream.fd).isSocket()
  } catch {
    // a closed descriptor is none
    return false
  }
}

function createSink(stream: OutputStream, level: ColorSupportLevel): Sink {
  const isTerminal = stream.isTTY === true
  return {
    isTerminal,
    // read anew each time: windows are resized
    get width() {
      return stream.columns !== undefined && stream.columns > 20 ? stream.columns : 80
    },
    // Other tools read what is piped: no colour there even when FORCE_COLOR asks for it.
    chalk: new Chalk({ level: isTerminal ? level : 0 }),
    isUnicode: process.platform !== 'win32' || isTerminal,
    // what reaches a terminal is text and our own decoration, whatever was forgotten on the way
    write: (text) => {
      stream.write(isTerminal ? keepDecoration(text, level > 0) : text)
    },
  }
}
