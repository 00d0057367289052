/**
 * Where rows of a run come from, and how each becomes a request for an answer.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { readLines } from '#formats/rows/json-lines.js'
import { pathsOf, render, VariableError, valueAt } from '#plugins/graders/grading/template.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findFile } from '#service/storage/files.js'

/** A row, and its answer where it came with one. */
interface RunRow {
  readonly item: JsonObject
  readonly sample: JsonValue | null
}

const MOST_ROWS = 5000
const MOST_BYTES = 32 * 1024 ** 2
const MOST_LINE_BYTES = 4 * 1024 ** 2
const KINDS = ['jsonl', 'completions', 'responses'] as const
/** What of `sampling_params` a request has under another name, or the same. */
const NAMES: Readonly<Record<string, { readonly completions: string; readonly responses: string }>> = {
  max_completion_tokens: { completions: 'max_completion_tokens', responses: 'max_output_tokens' },
  max_completions_tokens: { completions: 'max_completion_tokens', responses: 'max_output_tokens' },
  ...Object.fromEntries(
    ['temperature', 'top_p', 'seed', 'tools', 'reasoning_effort', 'response_format', 'text'].map((name) => [
      name,
      { completions: name, responses: name },
    ]),
  ),
}

const refuse = (param: string, message: string, hint: string): InvalidRequestError =>
  new InvalidRequestError('invalid_value', `${param} ${message}`, { param, hint })

/** Refuses what cannot be run, before anything is kept. @returns the source as it is kept, without its rows */
export function checkSource(source: JsonObject): JsonObject {
  const { type } = source
  if (!KINDS.some((kind) => kind === type)) {
    throw refuse('data_source.type', `must be one of ${KINDS.join(', ')}, got ${shown(type)}`, 'leave others out')
  }
  const rows = source['source']
  if (!isJsonObject(rows) || !['file_content', 'file_id'].includes(String(rows['type']))) {
    const given = isJsonObject(rows) ? shown(rows['type']) : 'nothing'
    const hint =
      'nothing is stored of completions: give {"type": "file_content", "content": [{"item": {…}}]} or a file_id'
    throw refuse('data_source.source', `must be file_content or file_id, got ${given}`, hint)
  }
  const kept = { ...source, source: rows['type'] === 'file_id' ? rows : { type: 'file_content', content: [] } }
  if (type === 'jsonl') return kept
  if (typeof source['model'] !== 'string' || source['model'] === '' || source['model'].length > 1024) {
    throw refuse('data_source.model', 'must name the model that answers', 'a base model, or one of yours')
  }
  const params = source['sampling_params'] ?? {}
  if (!isJsonObject(params)) throw refuse('data_source.sampling_params', 'must be an object', 'for example {"seed": 1}')
  const unknown = Object.keys(params).find((name) => !Object.hasOwn(NAMES, name))
  if (unknown !== undefined) {
    const at = `data_source.sampling_params.${unknown.slice(0, 60)}`
    throw refuse(at, 'is not known', `there are ${Object.keys(NAMES).join(', ')}`)
  }
  checkMessages(source['input_messages'])
  if (JSON.stringify(kept).length > 65_536)
    throw refuse('data_source', 'is too large without its rows', 'at most 64 kB')
  return kept
}

function checkMessages(given: JsonValue | undefined): void {
  const at = 'data_source.input_messages'
  const hint = '{"type": "template", "template": [{"role": "user", "content": "{{item.question}}"}]}'
  if (!isJsonObject(given)) throw refuse(at, 'is missing', hint)
  try {
    if (given['type'] === 'item_reference' && typeof given['item_reference'] === 'string') {
      if (pathsOf(`{{${given['item_reference']}}}`)[0]?.steps[0] === 'item') return
    }
    const { template } = given
    if (given['type'] !== 'template' || !Array.isArray(template) || template.length === 0)
      throw refuse(at, 'is no template', hint)
    for (const message of template as readonly JsonValue[]) {
      if (!isJsonObject(message) || typeof message['role'] !== 'string')
        throw refuse(at, 'holds what is no message', hint)
      const text = textOf(message['content'])
      if (text === null) throw refuse(at, 'may hold texts only', hint)
      if (pathsOf(text).some(({ steps }) => steps[0] !== 'item')) throw refuse(at, 'may name values of item only', hint)
    }
  } catch (error) {
    if (!(error instanceof VariableError)) throw error
    throw refuse(at, error.message, hint)
  }
}

/** Null: it holds something else than text. */
function textOf(content: JsonValue | undefined): string | null {
  if (typeof content === 'string') return content
  const parts = Array.isArray(content) ? (content as readonly JsonValue[]) : [content]
  const texts = parts.map((part) => (typeof part === 'string' ? part : isJsonObject(part) ? part['text'] : null))
  return texts.every((text) => typeof text === 'string') ? texts.join('') : null
}

/** The rows, bounded. @throws {InvalidRequestError} by the row, {NotFoundError} `file_not_found` */
export async function readRunRows(
  { db, blobs }: Pick<ServiceContext, 'db' | 'blobs'>,
  principal: Principal,
  source: JsonObject,
): Promise<readonly RunRow[]> {
  const from = source['source'] as JsonObject
  const hasAnswers = source['type'] === 'jsonl'
  const rows: RunRow[] = []
  const add = (value: unknown, where: string): void => {
    if (!isJsonObject(value)) throw refuse('data_source.source', `${where} is no object`, 'each is {"item": {…}}')
    const item = isJsonObject(value['item']) ? value['item'] : null
    if (item === null) throw refuse('data_source.source', `${where} has no "item"`, 'each is {"item": {…}}')
    const sample = value['sample'] ?? null
    if (hasAnswers && typeof sample !== 'string' && !isJsonObject(sample)) {
      const hint = '"sample" is {"output_text": "…"}, an answer of chat, or a text'
      throw refuse('data_source.source', `${where} has no "sample", the answer that is measured`, hint)
    }
    rows.push({ item, sample: hasAnswers ? sample : null })
    if (rows.length > MOST_ROWS) {
      throw refuse('data_source.source', `has more than ${MOST_ROWS} rows`, 'measure a part of them')
    }
  }
  if (from['type'] === 'file_content') {
    const { content } = from
    if (!Array.isArray(content)) throw refuse('data_source.source.content', 'must be a list', 'each is {"item": {…}}')
    for (const [i, value] of (content as readonly JsonValue[]).entries()) add(value, `row ${i}`)
  } else {
    const id = String(from['id'] ?? '')
    const file = await findFile(db, principal, { id })
    if (file === null) {
      throw new NotFoundError('file_not_found', `file "${id.slice(0, 100)}" was not found`, {
        param: 'data_source.source.id',
      })
    }
    if (file.sizeBytes > MOST_BYTES) {
      throw refuse('data_source.source.id', `has ${file.sizeBytes} bytes, a run takes ${MOST_BYTES}`, 'take fewer rows')
    }
    for await (const { number, text } of readLines(await blobs.openRead(file.sha256), {
      maxLineBytes: MOST_LINE_BYTES,
    })) {
      if (text.trim() === '') continue
      let value: unknown
      try {
        value = parseExact(text)
      } catch {
        throw refuse('data_source.source.id', `line ${number} is not JSON`, 'each line is {"item": {…}}')
      }
      add(value, `line ${number}`)
    }
  }
  if (rows.length === 0) throw refuse('data_source.source', 'holds no row', 'each is {"item": {…}}')
  return rows
}

/** A request for an answer, and the messages that it asks with. @throws {VariableError} for a path that the row has not */
export function requestOf(source: JsonObject, item: JsonObject) {
  const kind = source['type'] === 'responses' ? 'responses' : 'completions'
  const messages = messagesOf(source['input_messages'] as JsonObject, item)
  const params = (source['sampling_params'] ?? {}) as JsonObject
  const renamed = Object.entries(params).flatMap(([name, value]) =>
    value === null ? [] : [[NAMES[name]?.[kind] ?? name, value] as const],
  )
  const body = { model: source['model'], ...(kind === 'responses' ? { input: messages, store: false } : { messages }) }
  const endpoint = kind === 'responses' ? '/v1/responses' : '/v1/chat/completions'
  return { endpoint, messages, body: stringifyExact({ ...body, ...Object.fromEntries(renamed) } as JsonObject) }
}

function messagesOf(given: JsonObject, item: JsonObject): readonly JsonObject[] {
  const namespaces = { item, sample: {} }
  if (given['type'] === 'item_reference') {
    const [path] = pathsOf(`{{${String(given['item_reference'])}}}`)
    const value = path === undefined ? undefined : valueAt(path, namespaces)
    if (Array.isArray(value) && value.every(isJsonObject)) return value as readonly JsonObject[]
    throw new VariableError(`{{ ${path?.text ?? ''} }} is no list of messages`, path ?? null)
  }
  return (given['template'] as readonly JsonObject[]).map(({ role, content }) => ({
    role: role as string,
    content: render(textOf(content) ?? '', namespaces),
  }))
}

const shown = (value: unknown): string => JSON.stringify(value ?? null).slice(0, 60)
