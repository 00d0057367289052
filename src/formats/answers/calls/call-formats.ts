/**
 * All ways of writing tool calls that are read, by name; the order is that in which a template is asked for them, the more special first.
 */
import type { CallFormat } from './call-format.js'
import { apriel, granite3, hermes, llama3Json, mistralList } from './json-calls.js'
import { functionary, mistralArguments } from './mistral-calls.js'
import { functionGemma, gemma4, lfm2, pythonic, smollm3 } from './python-calls.js'
import { glm, qwen3Coder } from './tagged-calls.js'

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
