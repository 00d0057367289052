/**
 * What a recorded request says of how its answers were sampled, for answers that do not say it themselves: a record without
 * log-probabilities and sets (`formats/rows/sampling-record.ts`), whose fields are those of OpenAI's requests and vLLM's.
 *
 * Knows no server: what one does with a field that it is not sent stays unknown, and counts as plain.
 */
import { appliedTemperature } from '#base/sampling-record.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

/** Numbers that leave everything as it is, of fields that a record has itself. */
const RECORDED = { temperature: [1], top_p: [1], top_k: [0, -1], min_p: [0] } as const
/** Of fields that cut or move probabilities, the numbers that do nothing. */
const OFF: Readonly<Record<string, number>> = {
  frequency_penalty: 0,
  presence_penalty: 0,
  repetition_penalty: 1,
  min_tokens: 0,
}
/** Fields that do something wherever they stand and are not empty. */
const WHERE_GIVEN = [
  ...['logit_bias', 'allowed_token_ids', 'bad_words', 'structured_outputs'],
  ...['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'],
]
/** Cuts whose sets nobody recorded. */
const CUTS = ['top_p', 'top_k', 'min_p'] as const

/** @returns null where it says nothing but the defaults */
export function samplingOfRequest(request: JsonObject): JsonObject | null {
  const numbers = Object.entries(RECORDED).flatMap(([name, plain]): [string, number][] => {
    const value = request[name]
    return typeof value !== 'number' || (plain as readonly number[]).includes(value) ? [] : [[name, value]]
  })
  const recorded = Object.fromEntries(numbers)
  const unmodelled = [
    // the most likely token is that of every cut
    ...(appliedTemperature(recorded['temperature'] ?? 1) === 0
      ? []
      : CUTS.filter((name) => recorded[name] !== undefined)),
    ...Object.entries(OFF).flatMap(([name, off]) =>
      typeof request[name] === 'number' && request[name] !== off ? [name] : [],
    ),
    ...WHERE_GIVEN.filter((name) => isGiven(request[name])),
    ...(isConstraint(request['response_format']) ? ['response_format'] : []),
    ...(isForced(request['tool_choice']) ? ['tool_choice'] : []),
  ]
  return numbers.length === 0 && unmodelled.length === 0 ? null : { ...recorded, unmodelled }
}

function isGiven(value: JsonValue | undefined): boolean {
  if (Array.isArray(value)) return value.length > 0
  return isJsonObject(value) ? Object.keys(value).length > 0 : typeof value === 'string' && value !== ''
}

function isConstraint(format: JsonValue | undefined): boolean {
  return isJsonObject(format) && format['type'] !== undefined && format['type'] !== 'text'
}

/** OpenAI's word and forms (some tools of all, at the top in responses and below in chat), and Anthropic's. */
function isForced(choice: JsonValue | undefined): boolean {
  if (!isJsonObject(choice)) return choice === 'required'
  const { type, allowed_tools: allowed } = choice
  const mode = type === 'allowed_tools' ? (isJsonObject(allowed) ? allowed : choice)['mode'] : type
  return mode !== 'auto' && mode !== 'none'
}
