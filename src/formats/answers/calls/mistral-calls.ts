/**
 * Calls that give a name, then arguments as JSON: `[TOOL_CALLS]name[ARGS]{…}` of Mistral's newer templates, some with an id between
 * (`[CALL_ID]`), and Functionary's `<function=name>{…}</function>`. Repeated for several.
 */
import { isJsonObject } from '#base/util/json.js'
import { createBlockCalls } from './block-calls.js'
import type { CallFormat, WrittenCall } from './call-format.js'

export const mistralArguments: CallFormat = {
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

export const functionary: CallFormat = {
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
