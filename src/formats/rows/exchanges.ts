/**
 * Recorded exchanges of other protocols than chat, as far as they hold the tokens that were read and written: completions, OpenAI's
 * responses and Anthropic's messages, as `openpipe-art` 0.5.23 records them and this service answers for trainable models.
 *
 * Each becomes choices of a chat completion with exact prompts, which need no conversation: nothing is rendered again.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { samplingOfRequest } from './request-sampling.js'

export type ExchangeKind = 'completions' | 'responses' | 'messages'
export const EXCHANGE_KINDS: readonly ExchangeKind[] = ['completions', 'responses', 'messages']

/** A choice as chat has it, and where it was read. */
export interface ExactChoice {
  readonly choice: JsonObject
  readonly path: string
}

/**
 * @param path of the exchange
 * @returns null for an exchange without the tokens of its prompts and answers
 */
export function exactChoices(kind: ExchangeKind, exchange: JsonObject, path: string): readonly ExactChoice[] | null {
  const request = objectOf(exchange['request'])
  const response = objectOf(exchange['response'])
  const found = READERS[kind](request, response, `${path}.response`)
  if (found.length === 0 || !found.every(({ choice }) => hasTokens(choice))) return null
  const asked = samplingOfRequest(request)
  return found.map(({ choice, path: at }) => ({
    choice: { ...choice, sampling: choice['sampling'] ?? asked },
    path: at,
  }))
}

type Reader = (request: JsonObject, response: JsonObject, path: string) => readonly ExactChoice[]

const READERS: Readonly<Record<ExchangeKind, Reader>> = {
  // an echo repeats the prompt as a part of the answer
  completions: (request, response, path) =>
    request['echo'] === true
      ? []
      : listOf(response['choices']).map((choice, c) => ofCompletion(choice, `${path}.choices[${c}]`)),
  responses: (_, response, path) => {
    const output = listOf(response['output'])
    const isCut = response['status'] === 'incomplete'
    return listOf(response['token_generations']).map((generation, g) =>
      ofGeneration(generation, { output, isCut, path: `${path}.token_generations[${g}]` }),
    )
  },
  messages: (_, response, path) => [ofMessage(response, path)],
}

function ofCompletion(completion: JsonObject, path: string): ExactChoice {
  const { token_logprobs: logprobs = null } = objectOf(completion['logprobs'])
  const choice = {
    message: { role: 'assistant', content: completion['text'] ?? '' },
    finish_reason: completion['finish_reason'] ?? null,
    prompt_token_ids: completion['prompt_token_ids'] ?? null,
    token_ids: completion['token_ids'] ?? null,
    logprobs: toContent(completion['token_ids'], logprobs),
    sampling: completion['sampling'] ?? null,
  }
  return { choice, path }
}

function ofGeneration(
  generation: JsonObject,
  { output, isCut, path }: { readonly output: readonly JsonObject[]; readonly isCut: boolean; readonly path: string },
): ExactChoice {
  const tokens = Array.isArray(generation['output_tokens']) ? listOf(generation['output_tokens']) : null
  const ids = tokens === null ? (generation['token_ids'] ?? null) : tokens.map((token) => token['token_id'] ?? null)
  const indices = Array.isArray(generation['output_indices']) ? generation['output_indices'] : [...output.keys()]
  const own = indices.map((index) => output[Number(index)] ?? {})
  const content = own.filter((item) => item['type'] === 'message').flatMap((item) => listOf(item['content']))
  const calls = own.filter((item) => item['type'] === 'function_call')
  const choice = {
    message: toMessage(
      textsOf(content, 'text'),
      calls.map((call) => toCall(call['call_id'], call['name'], call['arguments'])),
    ),
    finish_reason: isCut ? 'length' : 'stop',
    prompt_token_ids: generation['prompt_token_ids'] ?? null,
    token_ids: ids,
    logprobs:
      tokens === null
        ? null
        : toContent(
            ids,
            tokens.map((token) => token['logprob'] ?? null),
          ),
    sampling: generation['sampling'] ?? null,
  }
  return { choice, path }
}

function ofMessage(message: JsonObject, path: string): ExactChoice {
  const blocks = listOf(message['content'])
  const calls = blocks.filter((block) => block['type'] === 'tool_use')
  const choice = {
    message: toMessage(
      textsOf(
        blocks.filter((block) => block['type'] === 'text'),
        'text',
      ),
      calls.map((call) => toCall(call['id'], call['name'], JSON.stringify(call['input'] ?? {}))),
    ),
    finish_reason: message['stop_reason'] === 'max_tokens' ? 'length' : 'stop',
    prompt_token_ids: message['prompt_token_ids'] ?? null,
    token_ids: message['token_ids'] ?? null,
    logprobs: toContent(message['token_ids'], message['logprobs'] ?? null),
    sampling: message['sampling'] ?? null,
  }
  return { choice, path }
}

/** Log-probabilities as chat has them; null where they are not known. */
function toContent(ids: JsonValue | undefined, logprobs: JsonValue): JsonValue {
  if (!Array.isArray(ids) || !Array.isArray(logprobs)) return null
  return { content: logprobs.map((logprob, t) => ({ token: `token_id:${ids[t] ?? ''}`, logprob })) }
}

function toMessage(content: string, calls: readonly JsonObject[]): JsonObject {
  return { role: 'assistant', content, ...(calls.length === 0 ? {} : { tool_calls: [...calls] }) }
}

function toCall(id: JsonValue | undefined, name: JsonValue | undefined, given: JsonValue | undefined): JsonObject {
  return { id: id ?? 'call_0', type: 'function', function: { name: name ?? '', arguments: given ?? '{}' } }
}

function textsOf(parts: readonly JsonObject[], field: string): string {
  return parts.map((part) => (typeof part[field] === 'string' ? part[field] : '')).join('')
}

function hasTokens(choice: JsonObject): boolean {
  return Array.isArray(choice['prompt_token_ids']) && Array.isArray(choice['token_ids'])
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value ?? null) ? (value as JsonObject) : {}
}

function listOf(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value.map(objectOf) : []
}
