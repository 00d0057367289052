/**
 * Tool calls with `tool_choice: "auto"`: builds the grammar that makes a model's own calls follow the schemas of their
 * tools, in the form of the model's template.
 *
 * With a response format, an answer is either calls or what the format says, under one grammar: so an agent calls its
 * tools and ends with an object of its type. If the template does not write arguments as JSON, calls are a JSON list,
 * as with required calls.
 *
 * Without a response format, and if a tool is strict, an answer is free text up to the mark that begins a call; from
 * there on names and arguments follow the schemas, and the answer ends after its calls. Schemas of strict tools are
 * kept in full, or refused; those of the other tools as far as those of required calls.
 *
 * Other constraints than `response_format` hold the whole answer and are not combined with calls here.
 */
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { CALL_FORMATS, type CallFrame, LIST_FRAME } from '#formats/answers/calls/call-formats.js'
import type { AnswerFormat, GrammarSpec } from '#inference/host/protocol.js'
import type { ToolMode } from './answer-text.js'
import { grammarField } from './structured-outputs.js'
import { isStrictTool, parametersOf } from './tool-choice.js'

export interface HeldCalls {
  readonly grammar: GrammarSpec
  readonly mode: ToolMode
}

export interface CallContext {
  /** What the answer is held to otherwise. */
  readonly grammar: GrammarSpec | null
  readonly mode: ToolMode
  readonly format: AnswerFormat
}

/** @returns null where calls of the model's own accord are what it writes */
export function heldCalls(request: ChatRequest, context: CallContext): HeldCalls | null {
  if (context.mode.kind !== 'auto') return null
  return context.grammar === null ? strictCalls(request, context) : callsOrSchema(request, context)
}

/** Whether a tool's `strict` is not kept to: what holds its calls is given, if anything does. */
export function isStrictIgnored(request: ChatRequest, mode: ToolMode, held: HeldCalls | null): boolean {
  return mode.kind === 'auto' && held === null && (request.tools ?? []).some(isStrictTool)
}

function strictCalls(request: ChatRequest, { mode, format }: CallContext): HeldCalls | null {
  const frame = format.toolFormat === null ? null : CALL_FORMATS[format.toolFormat].frame
  const tools = request.tools ?? []
  // the most likely answers are searched for without masks
  if (mode.kind !== 'auto' || frame === null || !tools.some(isStrictTool) || request.use_beam_search === true)
    return null
  const { trigger, isTriggerAtBeginning: isAtBeginning = false, readAs } = frame
  const tags = callsOf(tagsOf(tools, frame), frame, mode.isParallel)
  return {
    grammar: {
      kind: 'structural_tag',
      tag: tagText({ type: 'triggered_tags', triggers: [trigger], tags, stop_after_first: true }),
      isOfCalls: true,
      trigger: { texts: [trigger], isAtBeginning, isAfterReasoning: format.hasReasoning },
    },
    mode: {
      ...mode,
      ...(readAs === undefined ? {} : { form: readAs }),
      ...(isAtBeginning ? { whole: { opening: trigger } } : {}),
    },
  }
}

function callsOrSchema(request: ChatRequest, { grammar, mode, format }: CallContext): HeldCalls | null {
  if (mode.kind !== 'auto' || grammar?.kind !== 'json_schema' || grammarField(request) !== 'response_format')
    return null
  const frame = (format.toolFormat === null ? null : CALL_FORMATS[format.toolFormat].frame) ?? LIST_FRAME
  const tags = tagsOf(request.tools ?? [], frame)
  const schema: JsonObject = {
    type: 'json_schema',
    json_schema: parseExact(grammar.schema),
    is_lax: grammar.isLax === true,
  }
  const either: JsonObject = { type: 'or', elements: [...callsOf(tags, frame, mode.isParallel), schema] }
  return {
    grammar: { kind: 'structural_tag', tag: tagText(either), isOfCalls: true },
    mode: { ...mode, ...(frame === LIST_FRAME ? { form: 'list' } : {}), whole: { opening: openingOf(frame) } },
  }
}

const tagText = (format: JsonObject): string => stringifyExact({ type: 'structural_tag', format })

/** A call of each tool. */
function tagsOf(tools: NonNullable<ChatRequest['tools']>, frame: CallFrame): readonly JsonObject[] {
  return tools.map((tool, index) => ({
    type: 'tag',
    begin: (frame.separator === null ? frame.open : '') + frame.before(tool.function.name),
    content: { type: 'json_schema', json_schema: parametersOf(tool, index), is_lax: !isStrictTool(tool) },
    end: frame.after,
  }))
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
