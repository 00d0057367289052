/**
 * All ways of writing tool calls that are read, by name; the order is that in which a template is asked for them, the more special first.
 */

import { isJsonObject } from '#base/util/json.js'
import { createBlockCalls } from './block-calls.js'
import type { CallFormat, WrittenCall } from './call-format.js'
import { apriel, granite3, hermes, llama3Json, mistralList } from './json-calls.js'
import { functionGemma, gemma4, lfm2, pythonic, smollm3 } from './python-calls.js'
import { glm, qwen3Coder } from './tagged-calls.js'

/**
 * Calls that give a name, then arguments as JSON: `[TOOL_CALLS]name[ARGS]{…}` of Mistral's newer templates, some with an id between
 * (`[CALL_ID]`), and Functionary's `<function=name>{…}</function>`. Repeated for several.
 */
const mistralArguments: CallFormat = {
  isShownBy: (template) => template.includes('[TOOL_CALLS]') && template.includes('[ARGS]'),
  createStream: (tools) => createBlockCalls({ open: '[TOOL_CALLS]', close: '' }, readCall, tools),
  frame: {
    open: '[TOOL_CALLS]',
    close: '',
    before: (name) => `${name}[ARGS]`,
    after: '',
    separator: null,
    trigger: '[TOOL_CALLS]',
  },
}

const FUNCTION_OPEN = '<function='

const functionary: CallFormat = {
  isShownBy: (template) => template.includes(FUNCTION_OPEN) && !template.includes('<parameter='),
  createStream: (tools) => createBlockCalls({ open: FUNCTION_OPEN, close: '</function>' }, readFunction, tools),
  frame: {
    open: FUNCTION_OPEN,
    close: '</function>',
    before: (name) => `${name}>`,
    after: '',
    separator: `</function>${FUNCTION_OPEN}`,
    trigger: FUNCTION_OPEN,
  },
}

function readFunction(block: string): readonly WrittenCall[] | null {
  const [, name, given] = /^([^>\n]+)>\s*(\{[\s\S]*\})\s*$/.exec(block) ?? []
  return callOf(name, given)
}

const CALL = /^\s*([^\s[{]+)\s*(?:\[CALL_ID\][^[]*)?(?:\[ARGS\])?\s*(\{[\s\S]*\})\s*$/

function readCall(block: string): readonly WrittenCall[] | null {
  const [, name, given] = CALL.exec(block) ?? []
  return callOf(name, given)
}

function callOf(name: string | undefined, given: string | undefined): readonly WrittenCall[] | null {
  if (name === undefined || given === undefined) return null
  try {
    return isJsonObject(JSON.parse(given)) ? [{ name, arguments: given }] : null
  } catch {
    return null
  }
}

export const CALL_FORMATS = {
  mistral_args: mistralArguments,
  mistral: mistralList,
  qwen3_coder: qwen3Coder,
  glm,
  gemma4,
  functiongemma: functionGemma,
  lfm2,
  functionary,
  granite3,
  apriel,
  smollm3,
  hermes,
  pythonic,
  llama3_json: llama3Json,
} as const satisfies Readonly<Record<string, CallFormat>>

export type { CallFrame } from './call-format.js'
export { LIST_FRAME } from './json-calls.js'

export type ToolFormat = keyof typeof CALL_FORMATS

export const TOOL_FORMATS = Object.keys(CALL_FORMATS) as readonly ToolFormat[]

/** The form that a template shows; null where none of these. */
export function toolFormatOf(template: string): ToolFormat | null {
  return TOOL_FORMATS.find((name) => CALL_FORMATS[name].isShownBy(template)) ?? null
}
