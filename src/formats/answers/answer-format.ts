/**
 * How a model writes what is not plain text: tool calls and reasoning. Read off its chat template, which shows the model its
 * own earlier turns in the same form.
 */

import { type ToolFormat, toolFormatOf } from './calls/call-formats.js'

export type { ToolFormat } from './calls/call-formats.js'

export interface AnswerFormat {
  /** Null: the template shows no tools, or calls that could not be recognized in an answer; or there is no template. */
  readonly toolFormat: ToolFormat | null
  /** Reasoning stands between `<think>` and `</think>`. */
  readonly hasReasoning: boolean
}

/** @param source the template's text; with tools and without, where a model has two */
export function answerFormatOf(source: string): AnswerFormat {
  return {
    toolFormat:
      source === '' || showsTools(source) ? toolFormatOf(source) : needsToolPrompt(source) ? GENERIC_FORMAT : null,
    hasReasoning: source.includes('<think>') || source.includes('</think>'),
  }
}

/** How a model is told to call tools where its template shows none (`generic-tools.ts`). */
const GENERIC_FORMAT: ToolFormat = 'hermes'

/** Whether a template shows the model its tools; `xml_tools` is SmolLM3's name for them. */
const showsTools = (source: string): boolean => /\b(xml_)?tools\b/.test(source)

/** Whether tools must be told in words: the template knows neither tools nor calls. One that writes calls has a form of its own. */
export function needsToolPrompt(source: string): boolean {
  return !showsTools(source) && !/\btool_calls\b/.test(source)
}

/** Ends a reasoning block. */
export const REASONING_END = '</think>'

/** Whether a rendered prompt leaves a reasoning block open, so that the answer begins inside it. */
export function isReasoningOpen(prompt: string): boolean {
  return prompt.trimEnd().endsWith('<think>')
}
