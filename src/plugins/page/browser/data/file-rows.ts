/**
 * The first rows of a file on the server, as they stand in it; the file may be of any size.
 */
import { open } from './client.js'

/** Read of a file to show its beginning. */
const FIRST_BYTES = 256 * 1024
const FIRST_ROWS = 20

export interface FileRow {
  /** From 1. */
  readonly line: number
  /** Null: the line is no JSON object. */
  readonly value: Readonly<Record<string, unknown>> | null
  readonly text: string
}

export interface FirstRows {
  readonly rows: readonly FileRow[]
  /** Whether these are all. */
  readonly isWhole: boolean
}

/** @param path of a route that sends the file */
export async function readFirstRows(path: string, signal: AbortSignal): Promise<FirstRows> {
  const response = await open(path, { signal })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  let isWhole = false
  while (reader !== undefined && text.length < FIRST_BYTES) {
    const { done, value } = await reader.read()
    isWhole = done
    if (done) break
    text += value
  }
  if (!isWhole) await reader?.cancel()
  return firstRows(text, isWhole)
}

/** @param isWhole whether the text is all of the file: else its last line may be cut */
function firstRows(text: string, isWhole: boolean): FirstRows {
  const lines = text.split(/\r?\n/)
  const whole = isWhole ? lines : lines.slice(0, -1)
  const rows = whole.flatMap((line, i) => (line.trim() === '' ? [] : [toRow(line, i + 1)]))
  return { rows: rows.slice(0, FIRST_ROWS), isWhole: isWhole && rows.length <= FIRST_ROWS }
}

function toRow(text: string, line: number): FileRow {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return { line, text, value: isObject ? (value as Readonly<Record<string, unknown>>) : null }
  } catch {
    return { line, text, value: null }
  }
}
