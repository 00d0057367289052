/**
 * The form of answers of reinforcement jobs, of all or of a row: as of chat completions.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { toGrammar } from '#service/operations/generation/chat/structured-outputs.js'

const FORMATS = ['text', 'json_object', 'json_schema']

/** What is wrong with it, as the rest of a sentence; null: nothing. */
export function formatProblem(format: unknown): string | null {
  const type = isJsonObject(format) ? format['type'] : undefined
  if (typeof type !== 'string' || !FORMATS.includes(type)) {
    const given = typeof type === 'string' ? `"${type.slice(0, 60)}"` : 'none'
    return `response_format.type must be one of ${FORMATS.join(', ')}, got ${given}`
  }
  try {
    toGrammar({ response_format: format } as ChatRequest)
    return null
  } catch (error) {
    if (error instanceof InvalidRequestError) return error.message
    throw error
  }
}
