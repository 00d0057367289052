/**
 * `tool_choice` of type `allowed_tools`: a choice among some of the tools.
 *
 * It is answered as a request that has only these tools: a model is held to what it is shown, also where it may answer in words.
 * Source: OpenAI's chat and responses APIs, which nest the choice differently and mean the same.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'

/** @returns the request itself where its choice is another. @throws {InvalidRequestError} naming the field */
export function withAllowedTools(request: ChatRequest): ChatRequest {
  const choice = request.tool_choice ?? null
  if (typeof choice !== 'object' || choice === null || choice['type'] !== 'allowed_tools') return request
  const { mode, tools } = fieldsOf(choice['allowed_tools'])
  const names = listOf(tools, 'tool_choice.allowed_tools.tools').map((tool) => fieldsOf(tool['function'])['name'])
  const allowed = allowedOf(request.tools ?? [], names, {
    param: 'tool_choice.allowed_tools.tools',
    nameOf: (tool) => tool.function.name,
  })
  return { ...request, tools: [...allowed], tool_choice: modeOf(mode, 'tool_choice.allowed_tools.mode') }
}

/** @throws {InvalidRequestError} for another mode than `auto` and `required` */
export function modeOf(mode: unknown, param: string): 'auto' | 'required' {
  if (mode === 'auto' || mode === 'required') return mode
  throw invalid(param, `${param} must be "auto" or "required", got ${JSON.stringify(mode ?? null).slice(0, 100)}.`)
}

/** @throws {InvalidRequestError} for what is no list of objects, or an empty one */
export function listOf(tools: unknown, param: string): readonly Readonly<Record<string, unknown>>[] {
  if (Array.isArray(tools) && tools.length > 0) return tools.map(fieldsOf)
  throw invalid(param, `${param} must be a list of at least one tool.`)
}

/** The tools that are named, in their own order. @throws {InvalidRequestError} for a name that no tool has */
export function allowedOf<T>(
  tools: readonly T[],
  names: readonly unknown[],
  { param, nameOf }: { readonly param: string; readonly nameOf: (tool: T) => unknown },
): readonly T[] {
  for (const [index, name] of names.entries()) {
    if (typeof name === 'string' && tools.some((tool) => nameOf(tool) === name)) continue
    const shown = JSON.stringify(name ?? null).slice(0, 100)
    throw invalid(`${param}[${index}]`, `${param}[${index}] must name one of the specified \`tools\`, got ${shown}.`)
  }
  return tools.filter((tool) => names.includes(nameOf(tool)))
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
