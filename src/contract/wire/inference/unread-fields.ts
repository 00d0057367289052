/**
 * Fields that are not read because the `type` beside them says that something else is meant: the `image` of a content part of
 * type `text`, the `json_schema` of a response format of type `json_object`, the format of a text where the answer must be calls. Schemas
 * let them pass, so nothing else says that they are ignored.
 */
import { MEDIA_PARTS, TEXT_PART_FIELDS } from '#base/content-parts.js'

export type Fields = Readonly<Record<string, unknown>>

const READ_FIELDS: ReadonlyMap<unknown, string> = new Map(Object.entries(TEXT_PART_FIELDS))
const PART_FIELDS: readonly string[] = [...new Set([...READ_FIELDS.values(), ...MEDIA_PARTS])]
/** Where the parts of a request stand: chat's messages; items of a response's input, whose results are `output`. */
const PART_PLACES = [
  ['messages', 'content'],
  ['input', 'content'],
  ['input', 'output'],
] as const

const DESCRIPTION = ['name', 'description', 'schema', 'strict']
/** What is read of a format besides its type, in chat's form and in that of responses. A structural tag is read whole. */
const CHAT_FORMATS = new Map<unknown, readonly string[]>([
  ['text', []],
  ['json_object', ['schema']],
  ['json_schema', ['json_schema']],
])
const RESPONSE_FORMATS = new Map<unknown, readonly string[]>([...CHAT_FORMATS, ['json_schema', DESCRIPTION]])

/** What is read of an item of a response's input, and what clients send back with it that says nothing new. */
const ITEM_FIELDS: ReadonlyMap<unknown, readonly string[]> = new Map(
  Object.entries({
    message: ['role', 'content', 'phase'],
    function_call: ['call_id', 'name', 'arguments'],
    function_call_output: ['call_id', 'output'],
    reasoning: ['content', 'summary'],
    item_reference: [],
  }).map(([type, read]) => [type, ['type', 'id', 'status', ...read]]),
)
/** Of a part of an item, beside the text; lists of annotations and log-probabilities come back from answers. */
const ITEM_PART_FIELDS = ['type', 'annotations', 'logprobs', ...PART_FIELDS]
const CALL_FIELDS = ['id', 'type', 'index', 'function', 'custom']

/** Names of what a checked request says without effect, as paths, once a place. */
export function unreadFieldsOf(request: Fields): readonly string[] {
  const format = fieldsOf(request['response_format'])
  const described = format['type'] === 'json_schema' ? fieldsOf(format['json_schema']) : {}
  const ofResponse = fieldsOf(fieldsOf(request['text'])['format'])
  const asked = [
    ...(isConstraint(format) ? ['response_format'] : []),
    ...(isConstraint(ofResponse) ? ['text.format'] : []),
  ]
  const verbosity = fieldsOf(request['text'])['verbosity'] ?? 'medium'
  return [
    ...(mustCall(request) ? asked : []),
    ...(verbosity === 'medium' ? [] : ['text.verbosity']),
    ...unreadOf(format, CHAT_FORMATS, 'response_format'),
    ...saidNames(described, DESCRIPTION).map((name) => `response_format.json_schema.${name}`),
    ...unreadOf(ofResponse, RESPONSE_FORMATS, 'text.format'),
    ...unreadInParts(request),
    ...unreadInItems(itemsOf(request['input'])),
    ...unreadInCalls(itemsOf(request['messages'])),
  ]
}

function unreadInItems(items: readonly Fields[]): readonly string[] {
  const names = items.flatMap((item) => {
    const own = saidNames(item, ITEM_FIELDS.get(item['type'] ?? 'message') ?? Object.keys(item))
    const inside = ['content', 'output'].flatMap((list) =>
      itemsOf(item[list]).flatMap((part) => saidNames(part, ITEM_PART_FIELDS).map((name) => `${list}[].${name}`)),
    )
    return [...own, ...inside].map((name) => `input[].${name}`)
  })
  return [...new Set(names)]
}

/** Calls of messages are taken as they are, so no schema says what of them is not read. */
function unreadInCalls(messages: readonly Fields[]): readonly string[] {
  const names = messages.flatMap((message) =>
    itemsOf(message['tool_calls']).flatMap((call) => [
      ...saidNames(call, CALL_FIELDS),
      ...saidNames(fieldsOf(call['function']), ['name', 'arguments']).map((name) => `function.${name}`),
    ]),
  )
  return [...new Set(names)].map((name) => `messages[].tool_calls[].${name}`)
}

/** Whether the answer has to be calls of tools, in chat's form or in that of responses. */
function mustCall({ tools, tool_choice: choice, functions, function_call: called }: Fields): boolean {
  if (itemsOf(functions).length > 0) return fieldsOf(called)['name'] !== undefined
  if (itemsOf(tools).length === 0) return false
  const { type, mode, allowed_tools: allowed } = fieldsOf(choice)
  if (type === 'allowed_tools') return (mode ?? fieldsOf(allowed)['mode']) === 'required'
  return choice === 'required' || type === 'function'
}

function isConstraint({ type = 'text' }: Fields): boolean {
  return type !== 'text'
}

function unreadOf(format: Fields, known: ReadonlyMap<unknown, readonly string[]>, path: string): readonly string[] {
  const read = known.get(format['type'])
  return read === undefined ? [] : saidNames(format, ['type', ...read]).map((name) => `${path}.${name}`)
}

function unreadInParts(request: Fields): readonly string[] {
  const names = PART_PLACES.flatMap(([list, content]) =>
    itemsOf(request[list])
      .flatMap((message) => itemsOf(message[content]))
      .flatMap((part) => unreadOfPart(part).map((name) => `${list}[].${content}[].${name}`)),
  )
  return [...new Set(names)]
}

/** Media parts are refused, by name; what no part has, the schema leaves out. */
function unreadOfPart(part: Fields): readonly string[] {
  const read = READ_FIELDS.get(part['type'])
  return read === undefined ? [] : saidNames(part, [read]).filter((name) => PART_FIELDS.includes(name))
}

/** Names of an object besides some, without those that hold null, which says nothing. */
export function saidNames(fields: Fields, besides: readonly string[]): readonly string[] {
  return Object.keys(fields).filter((name) => !besides.includes(name) && (fields[name] ?? null) !== null)
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

export function itemsOf(list: unknown): readonly Fields[] {
  return Array.isArray(list) ? list.map(fieldsOf) : []
}
