/**
 * Lines of a batch's input: what each must say, all of them checked before the first is asked; and what becomes of a line in
 * the files
 * that come out.
 */
import { createHash } from 'node:crypto'
import { DataError } from '#base/errors/errors.js'
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import type { JsonValue } from '#base/json/json-value.js'
import { readLines } from '#formats/rows/json-lines.js'
import type { BatchError, BatchUsage } from './wire.js'

/** Source: OpenAI API reference, batches. */
const MOST_LINES = 50_000
export const MOST_INPUT_BYTES = 200 * 1024 ** 2
/** Of one line. It is parsed where every request is answered, a moment for each megabyte. */
const MOST_LINE_BYTES = 4 * 1024 ** 2
const MOST_CUSTOM_ID = 512
/** Errors that are told; the file has to be mended all the same. */
const MOST_ERRORS = 100

export interface BatchLine {
  /** Counted from 1, blank lines included. */
  readonly number: number
  readonly customId: string
  /** JSON. */
  readonly body: string
}

interface CheckedLines {
  readonly count: number
  /** None: all lines may be asked. */
  readonly errors: readonly BatchError[]
}

/** Looks at every line; memory is one line, and a few bytes of each id. */
export async function checkLines(source: AsyncIterable<Uint8Array>, endpoint: string): Promise<CheckedLines> {
  const errors: BatchError[] = []
  /** Digests of ids, which clients may choose as long as half a kilobyte. */
  const seen = new Set<string>()
  let count = 0
  const add = (line: number | null, error: Problem): void => {
    if (errors.length < MOST_ERRORS) errors.push({ line, ...error })
  }
  try {
    for await (const { number, text } of readLines(source, { maxLineBytes: MOST_LINE_BYTES })) {
      if (text.trim() === '') continue
      count += 1
      if (count > MOST_LINES) {
        add(number, problem('too_many_lines', `a batch has at most ${MOST_LINES} requests; split the file`, null))
        break
      }
      const line = readLine(text, endpoint)
      if ('code' in line) {
        add(number, line)
        continue
      }
      const digest = createHash('sha256').update(line.customId).digest('base64').slice(0, 22)
      if (seen.has(digest)) {
        const shown = line.customId.slice(0, 100)
        add(number, problem('duplicate_custom_id', `custom_id "${shown}" is that of a line before`, 'custom_id'))
      }
      seen.add(digest)
    }
  } catch (error) {
    if (!(error instanceof DataError)) throw error
    const line = error.details?.['line']
    add(typeof line === 'number' ? line : null, problem(error.code, error.message, null))
  }
  if (count === 0 && errors.length === 0) add(null, problem('empty_file', 'the input file has no line', null))
  return { count, errors }
}

/** Lines that were checked before, but those that are done. */
export async function* openLines(
  source: AsyncIterable<Uint8Array>,
  { endpoint, isDone }: { readonly endpoint: string; readonly isDone: (number: number) => boolean },
): AsyncGenerator<BatchLine> {
  for await (const { number, text } of readLines(source, { maxLineBytes: MOST_LINE_BYTES })) {
    if (text.trim() === '' || isDone(number)) continue
    const line = readLine(text, endpoint)
    if ('code' in line) throw new DataError(line.code, line.message, { details: { line: number } })
    yield { number, ...line }
  }
}

type Problem = Omit<BatchError, 'line'>

function problem(code: string, message: string, param: string | null): Problem {
  return { code, message, param }
}

function readLine(text: string, endpoint: string): Omit<BatchLine, 'number'> | Problem {
  let value: JsonValue
  try {
    value = parseExact(text)
  } catch {
    return problem('invalid_json_line', 'the line is not a JSON object', null)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return problem('invalid_json_line', 'the line is not a JSON object', null)
  }
  const { custom_id: customId, method, url, body } = value as { readonly [key: string]: JsonValue | undefined }
  if (typeof customId !== 'string' || customId === '' || customId.length > MOST_CUSTOM_ID) {
    return problem(
      'invalid_custom_id',
      `custom_id must be a string of 1 to ${MOST_CUSTOM_ID} characters, its own on each line`,
      'custom_id',
    )
  }
  if (method !== 'POST') return problem('invalid_method', `method must be "POST", got ${shown(method)}`, 'method')
  if (url !== endpoint) {
    return problem('invalid_url', `url must be the endpoint of the batch, "${endpoint}", got ${shown(url)}`, 'url')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return problem('invalid_body', `body must be the JSON object of a request, got ${shown(body)}`, 'body')
  }
  if ((body as { readonly stream?: JsonValue }).stream === true) {
    return problem(
      'stream_not_supported',
      'stream must be left out: nobody listens while a batch is answered',
      'body.stream',
    )
  }
  return { customId, body: stringifyExact(body) }
}

function shown(value: JsonValue | undefined): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 100)
}

/** What a line was answered. */
export interface LineAnswer {
  readonly status: number
  readonly requestId: string
  /** JSON as it came. */
  readonly body: string
}

/** A line of the output file, or of the errors where it was refused. */
export function answerLine(batchId: string, line: BatchLine, { status, requestId, body }: LineAnswer): string {
  const response = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${body}}`
  return `${head(batchId, line)},"response":${response},"error":null}\n`
}

/** A line of the errors for what was not asked in time. */
export function expiredLine(batchId: string, line: BatchLine): string {
  const error = {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  }
  return `${head(batchId, line)},"response":null,"error":${JSON.stringify(error)}}\n`
}

/** The same however often it is made: a file that is written again is the same file. */
function head(batchId: string, { number, customId }: BatchLine): string {
  const id = `batch_req_${batchId.slice('batch_'.length)}_${number}`
  return `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)}`
}

/** The tokens of an answer, in the words of chat and completions or of responses. */
export function usageOf(answer: unknown): BatchUsage {
  const { usage } = (answer ?? {}) as { readonly usage?: Readonly<Record<string, unknown>> | null }
  const number = (value: unknown): number => (typeof value === 'number' ? value : 0)
  const part = (name: string, key: string): number => number((usage?.[name] as Record<string, unknown> | null)?.[key])
  const input = number(usage?.['input_tokens'] ?? usage?.['prompt_tokens'])
  const output = number(usage?.['output_tokens'] ?? usage?.['completion_tokens'])
  const [ofInput, ofOutput] =
    usage?.['input_tokens'] === undefined
      ? ['prompt_tokens_details', 'completion_tokens_details']
      : ['input_tokens_details', 'output_tokens_details']
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: part(ofInput, 'cached_tokens') },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: part(ofOutput, 'reasoning_tokens') },
    total_tokens: input + output,
  }
}

export function addUsage(a: BatchUsage, b: BatchUsage): BatchUsage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    input_tokens_details: {
      cached_tokens: a.input_tokens_details.cached_tokens + b.input_tokens_details.cached_tokens,
    },
    output_tokens: a.output_tokens + b.output_tokens,
    output_tokens_details: {
      reasoning_tokens: a.output_tokens_details.reasoning_tokens + b.output_tokens_details.reasoning_tokens,
    },
    total_tokens: a.total_tokens + b.total_tokens,
  }
}
