/**
 * How a model writes what is not plain text: tool calls and reasoning. Read off its chat template, which shows the model its
 * own earlier turns in the same form.
 */

/**
 * How tool calls are written.
 *
 * - `hermes`: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, repeated (Hermes, Qwen 2.5 and 3, SmolLM2, spark)
 * - `llama3_json`: the whole answer is `{"name": …, "parameters": {…}}`, several separated by `;` (Llama 3.1 and later)
 * - `mistral`: `[TOOL_CALLS]` and a JSON list of `{"name": …, "arguments": {…}}`
 */
export type ToolFormat = 'hermes' | 'llama3_json' | 'mistral'

export interface AnswerFormat {
  /** Null: the template shows no calls that could be recognized in an answer. */
  readonly toolFormat: ToolFormat | null
  /** The template shows the model its tools. */
  readonly showsTools: boolean
  /** Reasoning stands between `<think>` and `</think>`. */
  readonly hasReasoning: boolean
}

/** @param source the template's text; with tools and without, where a model has two */
export function answerFormatOf(source: string): AnswerFormat {
  return {
    toolFormat: toolFormatOf(source),
    showsTools: /\btools\b/.test(source),
    hasReasoning: source.includes('<think>') || source.includes('</think>'),
  }
}

function toolFormatOf(source: string): ToolFormat | null {
  if (source.includes('[TOOL_CALLS]')) return 'mistral'
  if (source.includes('<tool_call>')) return 'hermes'
  const isLlama = source.includes('<|python_tag|>') || source.includes('ipython')
  return isLlama && source.includes('parameters') ? 'llama3_json' : null
}

/** Ends a reasoning block. */
export const REASONING_END = '</think>'

/** Whether a rendered prompt leaves a reasoning block open, so that the answer begins inside it. */
export function isReasoningOpen(prompt: string): boolean {
  return prompt.trimEnd().endsWith('<think>')
}
