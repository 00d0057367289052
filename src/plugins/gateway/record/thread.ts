/**
 * Entry of the thread that reads recorded calls: it decodes, joins streams, and masks, so that none of it delays a call that is
 * passed on. What it answers is fit to be written; nothing of a call leaves it otherwise.
 */
import { createHash } from 'node:crypto'
import { createContext, Script } from 'node:vm'
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'
import { answerThread } from '#base/processes/ask-thread.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { type ReadAnswer, readAnswer } from './answer.js'
import { compilePattern, maskJson, maskText } from './mask.js'
import type { ReadCall, UnreadCall } from './reading.js'

/** For one call: an expression of a route's that needs longer would hold up all the others. */
const MASK_MS = 500
/** A decoded answer may be so much longer than what is kept of one. */
const DECODED_BYTES = 64 * 1024 ** 2

answerThread(readCall)

function readCall(call: UnreadCall): ReadCall {
  const model = modelOf(call.request)
  const nothing: ReadCall = { ...NOTHING, model, content: 'unreadable' }
  let request: JsonObject
  let read: ReadAnswer
  try {
    const asked = JSON.parse(textOf(call.request)) as JsonValue
    if (!isJsonObject(asked)) return nothing
    request = asked
    read = answerOf(call)
  } catch {
    return nothing
  }
  const { answer, ...tokens } = read
  const counted = { ...nothing, ...tokens, model: shown(read.model ?? stringOf(request['model'])) }
  if (!call.keepsContent) return { ...counted, content: 'not_wanted' }
  // a stream is many times as long as what it says, so only the request can be judged as it came
  if (call.request.length > call.maxBytes) return { ...counted, content: 'too_large' }
  const own = call.maskPatterns.map(compilePattern)
  const mask = () => ({
    request: maskJson(request, own) as JsonObject,
    answer: maskJson(answer, own) as JsonObject | null,
  })
  const masked = own.length === 0 ? mask() : within(MASK_MS, mask)
  if (masked === null) return { ...counted, content: 'mask_too_slow' }
  const texts = {
    request: JSON.stringify(masked.request),
    answer: masked.answer === null ? null : JSON.stringify(masked.answer),
  }
  if (texts.request.length + (texts.answer?.length ?? 0) > call.maxBytes) return { ...counted, content: 'too_large' }
  const said = masked.request
  const prompt = [said['system'], said['instructions'], said['messages'], said['input'], said['tools']]
  return {
    ...counted,
    content: 'kept',
    ...texts,
    shapeDigest: digest(shapeOf(said)),
    promptDigest: digest(prompt),
    answerDigest: masked.answer === null ? null : digest(masked.answer),
  }
}

const NOTHING = {
  ...{ inputTokens: null, cachedTokens: null, outputTokens: null },
  ...{ shapeDigest: null, promptDigest: null, answerDigest: null, request: null, answer: null },
}

function answerOf(call: UnreadCall): ReadAnswer {
  const nothing = { model: null, inputTokens: null, cachedTokens: null, outputTokens: null, answer: null }
  if (call.isAnswerCut) return nothing
  const text = textOf(decode(call.answer, call.encoding))
  try {
    return readAnswer(call.form, text, call.isStream)
  } catch (error) {
    // a refusal in no form of ours says nothing worth keeping, and is counted all the same
    if (call.status >= 400) return nothing
    throw error
  }
}

function decode(bytes: Uint8Array, encoding: string | null): Uint8Array {
  const options = { maxOutputLength: DECODED_BYTES }
  switch (encoding) {
    case null:
    case 'identity':
      return bytes
    case 'gzip':
    case 'x-gzip':
      return gunzipSync(bytes, options)
    case 'deflate':
      return inflateSync(bytes, options)
    case 'br':
      return brotliDecompressSync(bytes, options)
    default:
      throw new Error(`Content-Encoding ${encoding} is not known`)
  }
}

/** Runs what may never end. @returns null: it was ended */
function within<T extends object>(ms: number, work: () => T): T | null {
  let result: T | null = null
  const context = createContext({ work: () => (result = work()) })
  try {
    new Script('work()').runInContext(context, { timeout: ms })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
    return null
  }
  return result
}

/** What calls of one use have in common: the system prompt, the names of the tools, the form of the answer. */
function shapeOf(request: JsonObject): JsonValue {
  const listed = [request['messages'], request['input']].find(Array.isArray) as readonly JsonValue[] | undefined
  const messages = (listed ?? []).filter(isJsonObject)
  const system = messages
    .filter(({ role }) => role === 'system' || role === 'developer')
    .map(({ content }) => content ?? null)
  const tools = Array.isArray(request['tools']) ? request['tools'].filter(isJsonObject) : []
  const names = tools.map(
    ({ name, function: called }) =>
      name ?? (isJsonObject(called ?? null) ? (called as JsonObject)['name'] : null) ?? null,
  )
  const format = [request['response_format'], request['text'], request['output_config']].map((each) => each ?? null)
  return [request['system'] ?? null, request['instructions'] ?? null, system, names, format]
}

function modelOf(request: Uint8Array): string | null {
  try {
    const value = JSON.parse(textOf(request)) as JsonValue
    return isJsonObject(value) ? shown(stringOf(value['model'])) : null
  } catch {
    return null
  }
}

/** A name that goes into a row of its own is masked like all else. */
const shown = (model: string | null): string | null => (model === null ? null : maskText(model.slice(0, 200), []))
const stringOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const digest = (value: unknown): string =>
  createHash('sha256')
    .update(JSON.stringify(value ?? null))
    .digest('hex')
    .slice(0, 32)
