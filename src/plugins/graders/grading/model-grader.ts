/**
 * `score_model` and `label_model`: a model reads messages made of the row and the answer, and says a number or a
 * label, held to a schema.
 *
 * What cannot be read is asked for once more, what does not come twice more; then the grader errs. Temperature 0
 * unless it is given.
 */
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { GradingError } from './grade-errors.js'
import type { ModelGrader, Sampling } from './spec.js'
import { type Namespaces, render } from './template.js'

/** Answers a request of chat, as `client.chat.create` does: `model` says who. */
export type AskModel = (
  request: ModelRequest,
  options: { readonly signal?: AbortSignal | undefined },
) => Promise<ModelResponse>

export interface ModelRequest {
  readonly model: string
  readonly messages: { readonly role: string; readonly content: string }[]
  readonly response_format: JsonObject & { readonly type: 'json_schema' }
  readonly temperature: number
  readonly [option: string]: unknown
}

/** What is read of an answer. */
export interface ModelResponse {
  readonly model?: unknown
  readonly choices: readonly {
    readonly message: { readonly content?: unknown; readonly refusal?: unknown }
    readonly finish_reason?: unknown
  }[]
  readonly usage?: unknown
}

/** Tokens of one model, in the words of the hosted service's events. */
export interface TokenUsage {
  prompt_tokens: number
  completion_tokens: number
  cached_tokens: number
}

/** What graders of one call used, by model. */
export type UsageByModel = Map<string, TokenUsage>

const [TRIES, READINGS] = [3, 2]

/**
 * The score, clipped to the grader's range, or 1 for a label that passes. @throws {GradingError} the flags of model
 * graders
 */
export async function gradeByModel(
  grader: ModelGrader,
  namespaces: Namespaces,
  context: { readonly ask: AskModel; readonly usage: UsageByModel; readonly signal?: AbortSignal | undefined },
): Promise<number> {
  const request = toRequest(grader, namespaces)
  for (let reading = 1; ; reading += 1) {
    const response = await askPatiently(grader.model, request, context)
    addUsage(context.usage, grader.model, response.usage)
    const [choice] = response.choices
    const { content, refusal } = choice?.message ?? {}
    if ((typeof refusal === 'string' && refusal !== '') || choice?.finish_reason === 'content_filter') {
      throw new GradingError('model_grader_refusal_error', `${grader.model} refused: ${String(refusal ?? 'filtered')}`)
    }
    const score = readScore(grader, typeof content === 'string' ? content : '')
    if (score !== null) return score
    if (reading < READINGS) continue
    const cut = choice?.finish_reason === 'length' ? ', cut off at its limit of tokens' : ''
    const said = String(content ?? '').slice(0, 200)
    throw new GradingError('model_grader_parse_error', `${grader.model} cannot be read${cut}: ${said}`)
  }
}

async function askPatiently(
  model: string,
  request: ModelRequest,
  { ask, signal }: { readonly ask: AskModel; readonly signal?: AbortSignal | undefined },
): Promise<ModelResponse> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await ask(request, { signal })
    } catch (error) {
      signal?.throwIfAborted()
      if (tried < TRIES) continue
      const why = error instanceof Error ? error.message : String(error)
      throw new GradingError('model_grader_server_error', `${model} did not answer: ${why}`, { cause: error })
    }
  }
}

function toRequest(grader: ModelGrader, namespaces: Namespaces): ModelRequest {
  const schema = grader.type === 'score_model' ? SCORE : labelSchema(grader.labels)
  const messages = grader.messages.map(({ role, parts }) => ({
    role,
    content: parts.map((part) => render(part, namespaces)).join('\n'),
  }))
  return {
    model: grader.model,
    messages: [{ role: 'system', content: asksFor(grader) }, ...messages],
    response_format: { type: 'json_schema', json_schema: { name: grader.type, strict: true, schema } },
    ...toOptions(grader.type === 'score_model' ? grader.sampling : {}),
  }
}

function asksFor(grader: ModelGrader): string {
  if (grader.type === 'label_model') {
    return `Answer with JSON: {"label": …}, where label is one of ${grader.labels.map((label) => JSON.stringify(label)).join(', ')}.`
  }
  const [least, most] = grader.range
  return `Answer with JSON: {"steps": [{"description": …, "conclusion": …}], "result": …}, where result is a number from ${least} to ${most}.`
}

function toOptions({ temperature = 0, topP, seed, maxTokens, reasoningEffort }: Sampling) {
  return {
    temperature,
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(seed === undefined ? {} : { seed }),
    ...(maxTokens === undefined ? {} : { max_completion_tokens: maxTokens }),
    ...(reasoningEffort === undefined ? {} : { reasoning_effort: reasoningEffort }),
  }
}

const closed = (properties: Readonly<Record<string, JsonValue>>): JsonObject => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})
const scoreSchema = (text: JsonObject, most: JsonObject): JsonObject =>
  closed({
    steps: { type: 'array', items: closed({ description: text, conclusion: text }), ...most },
    result: { type: 'number' },
  })
const SCORE = scoreSchema({ type: 'string' }, {})
/** Steps that a model of ours may write, and characters of each of their two texts. */
const [MOST_STEPS, LONGEST_STEP] = [3, 160]
/** Tokens of an answer where nobody says how many, of one step that is worth writing, and of what stands around the texts. */
const [USUAL_TOKENS, STEP_TOKENS, FRAME_TOKENS] = [256, 400, 48]

/**
 * The same request for a model of this service: a small one may never come to the end of its steps, and is held to bounds that
 * other servers do not take in a schema. They follow from `max_completions_tokens`, so that the result comes before it: few
 * tokens leave no step, and the judgement is quick.
 */
export function withBounds(request: ModelRequest): ModelRequest {
  const format = request.response_format
  const { schema, ...rest } = format['json_schema'] as JsonObject
  if (schema !== SCORE) return request
  const bounded = boundedScore(Number(request['max_completion_tokens'] ?? USUAL_TOKENS))
  return { ...request, response_format: { ...format, json_schema: { ...rest, schema: bounded } } }
}

/** A token is a character at least. */
function boundedScore(mostTokens: number): JsonObject {
  const room = mostTokens - FRAME_TOKENS
  const steps = Math.min(MOST_STEPS, Math.max(room >= 2 * FRAME_TOKENS ? 1 : 0, Math.floor(room / STEP_TOKENS)))
  const longest = Math.min(LONGEST_STEP, Math.floor((room / Math.max(1, steps) - FRAME_TOKENS) / 2))
  return scoreSchema({ type: 'string', maxLength: Math.max(0, longest) }, { maxItems: steps })
}
const labelSchema = (labels: readonly string[]): JsonObject => closed({ label: { type: 'string', enum: labels } })

/** Null where nothing can be read. */
function readScore(grader: ModelGrader, text: string): number | null {
  let said: { readonly result?: unknown; readonly label?: unknown } | null
  try {
    // a model that is not held to the schema may put words around it
    said = JSON.parse(/\{.*\}/s.exec(text)?.[0] ?? '')
  } catch {
    return null
  }
  if (grader.type === 'label_model') {
    const label = grader.labels.find((each) => each === said?.label)
    if (label === undefined) return null
    return grader.passingLabels.includes(label) ? 1 : 0
  }
  const result = typeof said?.result === 'string' && said.result.trim() !== '' ? Number(said.result) : said?.result
  if (typeof result !== 'number' || !Number.isFinite(result)) return null
  const [least, most] = grader.range
  return Math.min(most, Math.max(least, result))
}

function addUsage(byModel: UsageByModel, model: string, usage: unknown): void {
  const given = (usage ?? {}) as Readonly<Record<string, unknown>>
  const details = (given['prompt_tokens_details'] ?? {}) as Readonly<Record<string, unknown>>
  const sum = byModel.get(model) ?? { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0 }
  sum.prompt_tokens += numberOf(given['prompt_tokens'])
  sum.completion_tokens += numberOf(given['completion_tokens'])
  sum.cached_tokens += numberOf(details['cached_tokens'])
  byModel.set(model, sum)
}

const numberOf = (value: unknown): number => (typeof value === 'number' ? value : 0)
