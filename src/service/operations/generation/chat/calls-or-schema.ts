/**
 * Tools and a response format together: an answer that is either calls or what the format says, held to one grammar, so that an agent
 * calls its tools and ends with an object of its type.
 *
 * Calls are held to the form of the model's template; where that writes arguments otherwise than as JSON, to a JSON list, as required
 * calls are. Knows nothing of a constraint by another field than `response_format`: that one holds the whole answer.
 */
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { CALL_FORMATS, type CallFrame, LIST_FRAME } from '#formats/answers/calls/call-formats.js'
import type { AnswerFormat, GrammarSpec } from '#inference/host/protocol.js'
import type { ToolMode } from './answer-text.js'
import { grammarField } from './structured-outputs.js'
import { isStrictTool, parametersOf } from './tool-choice.js'

export interface CallsOrSchema {
  readonly grammar: GrammarSpec
  readonly mode: ToolMode
}

/** @returns null where the request has no tools to call of the model's own accord, or no response format */
export function callsOrSchema(
  request: ChatRequest,
  {
    grammar,
    mode,
    format,
  }: { readonly grammar: GrammarSpec | null; readonly mode: ToolMode; readonly format: AnswerFormat },
): CallsOrSchema | null {
  if (mode.kind !== 'auto' || grammar?.kind !== 'json_schema' || grammarField(request) !== 'response_format')
    return null
  const frame = (format.toolFormat === null ? null : CALL_FORMATS[format.toolFormat].frame) ?? LIST_FRAME
  const tags = (request.tools ?? []).map(
    (tool, index): JsonObject => ({
      type: 'tag',
      begin: (frame.separator === null ? frame.open : '') + frame.before(tool.function.name),
      content: { type: 'json_schema', json_schema: parametersOf(tool, index), is_lax: !isStrictTool(tool) },
      end: frame.after,
    }),
  )
  const schema: JsonObject = {
    type: 'json_schema',
    json_schema: parseExact(grammar.schema),
    is_lax: grammar.isLax === true,
  }
  const either: JsonObject = { type: 'or', elements: [...callsOf(tags, frame, mode.isParallel), schema] }
  return {
    grammar: { kind: 'structural_tag', tag: stringifyExact({ type: 'structural_tag', format: either }) },
    mode: { ...mode, whole: { form: frame === LIST_FRAME ? 'list' : null, opening: openingOf(frame) } },
  }
}

function callsOf(
  tags: readonly JsonObject[],
  { open, close, separator }: CallFrame,
  isParallel: boolean,
): readonly JsonValue[] {
  if (separator === null) return tags
  const all = { type: 'tags_with_separator', tags, separator, at_least_one: true, stop_after_first: !isParallel }
  // the grammar's compiler takes a repetition as an alternative only where something ends it
  return [{ type: 'tag', begin: open, content: all, end: close }]
}

/** What calls begin with, and no object does; empty where only their reader can tell. */
const openingOf = ({ open }: CallFrame): string => (open.startsWith('{') ? '' : (/^[^\s{]+/.exec(open)?.[0] ?? ''))
