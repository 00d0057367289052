/**
 * Answers runs, one after the other: each row is answered by the API for whoever made the run, graded by it, and written
 * down at once, so that a stop or a kill of the server costs the rows that were being answered.
 */
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { VariableError } from '#plugins/graders/grading/template.js'
import type { ServiceContext } from '#service/operations/context.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { type AskingParts, createAsking, principalOf } from '../batches/ask-line.js'
import type { Criterion } from './criteria.js'
import { requestOf } from './run-source.js'
import {
  endRun,
  findEval,
  type ItemRecord,
  type ItemResult,
  isHeld,
  listOpenRuns,
  listPending,
  type RunRecord,
  setResult,
  takeRunUp,
} from './storage/evals.js'
import type { ItemStatus, OutputItem } from './wire.js'

type Context = Pick<ServiceContext, 'db' | 'ids' | 'clock' | 'logger'>

interface RunnerParts extends AskingParts {
  /** Does what one of several servers does at a time; null while another does it. */
  readonly onDuty?: (action: () => Promise<void>) => Promise<unknown>
}

/** Items that are read at a time. */
const CHUNK = 64
const NO_USAGE = { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0, total_tokens: 0 }
const GRADE = '/v1/fine_tuning/alpha/graders/run'

export function createRunRunner(context: Context, parts: RunnerParts) {
  const { db, ids, clock, logger } = context
  const { onDuty = (action) => action() } = parts
  const ending = new AbortController()
  const asking = createAsking(context, parts, CHUNK)
  const measure = createMeasuring(asking)
  let running: { readonly id: string; readonly stop: AbortController } | null = null
  let looking: Promise<void> | null = null
  let isLookingAgain = false

  async function answerAll(): Promise<void> {
    while (!ending.signal.aborted) {
      const [id] = await listOpenRuns(db, 1)
      if (id === undefined) return
      const stop = new AbortController()
      running = { id, stop }
      const run = await takeRunUp(db, id)
      if (run !== null) await answerRun(run, AbortSignal.any([ending.signal, stop.signal]))
      running = null
    }
  }

  async function answerRun(run: RunRecord, signal: AbortSignal): Promise<void> {
    const found = await findEval(db, { entity: run.entity, project: null }, run.evalId)
    if (found === null) return
    let first: OutputItem['sample']['error'] = null
    let measured = 0
    for (;;) {
      const items = await listPending(db, run.id, CHUNK)
      if (items.length === 0 || signal.aborted) break
      let next = 0
      const work = async (): Promise<void> => {
        for (let item = items[next++]; item !== undefined && !signal.aborted; item = items[next++]) {
          const current = item
          await asking.turn(run.keyId, signal, async () => {
            const said = await measure(run, { item: current, criteria: found.spec.criteria, signal })
            if (said === null) return true
            if (said.status === 'error') first ??= said.result.sample.error
            else measured += 1
            await inTransaction(db, async (transaction) => {
              if (await isHeld(transaction, run)) await setResult(transaction, current.id, said)
            })
            return false
          })
        }
      }
      await Promise.all(Array.from({ length: parts.atOnce }, work))
      if (!(await isHeld(db, run))) return
    }
    if (signal.aborted) return
    const error = measured === 0 ? first : null
    const end = { status: error === null ? 'completed' : 'failed', error, nowMs: clock.nowMs() } as const
    await inTransaction(db, (transaction) => endRun(transaction, ids, run, end))
  }

  async function look(): Promise<void> {
    while (isLookingAgain && !ending.signal.aborted) {
      isLookingAgain = false
      try {
        await onDuty(answerAll)
      } catch (error) {
        if (!ending.signal.aborted) logger.error({ err: error }, 'eval.look_failed')
      }
    }
  }

  return {
    wake: (): void => {
      if (ending.signal.aborted) return
      // a look that is about to end may have missed what this is about
      isLookingAgain = true
      looking ??= look().finally(() => {
        looking = null
      })
    },
    cancel: (id: string): void => {
      if (running?.id === id) running.stop.abort()
    },
    /** Ends what is asked; it is asked again by the next server. */
    stop: async (): Promise<void> => {
      ending.abort()
      await looking
    },
  }
}

interface Measured {
  readonly status: ItemStatus
  readonly result: ItemResult
}

function createMeasuring(asking: ReturnType<typeof createAsking>) {
  /** @returns null where the signal ended it */
  async function ask(run: RunRecord, endpoint: string, body: string, signal: AbortSignal): Promise<Answered | null> {
    const line = { number: 0, customId: '', body }
    const said = await asking.ask(principalOf(run), { batch: { endpoint }, line, signal })
    if (said === null) return null
    const value = parseExact(said.body)
    return { isError: said.status >= 300, body: isJsonObject(value) ? value : {} }
  }

  return async function measure(
    run: RunRecord,
    {
      item: { item: text },
      criteria,
      signal,
    }: { item: ItemRecord; criteria: readonly Criterion[]; signal: AbortSignal },
  ): Promise<Measured | null> {
    const { item, sample: given } = parseExact(text) as { item: JsonObject; sample: JsonValue }
    const answered =
      given === null ? await answer(run, item, signal) : { ...sampleOf(run, given), model_sample: forGrader(given) }
    if (answered === null) return null
    const { model_sample: modelSample, ...sample } = answered
    if (sample.error !== null || modelSample === null) {
      return { status: 'error', result: { results: [], sample, graders: {} } }
    }
    const results: OutputItem['results'] = []
    const graders: Record<string, OutputItem['sample']['usage']> = {}
    let problem: OutputItem['sample']['error'] = null
    for (const criterion of criteria) {
      const body = stringifyExact({ grader: criterion.grader, item, model_sample: modelSample } as JsonObject)
      const graded = await ask(run, GRADE, body, signal)
      if (graded === null) return null
      if (graded.isError) {
        problem ??= errorOf(graded.body)
        continue
      }
      const {
        reward,
        metadata,
        model_grader_token_usage_per_model: usage,
      } = JSON.parse(stringifyExact(graded.body)) as GradedBody
      const [fault] = metadata.error_details
      if (fault !== undefined) problem ??= { code: fault.flag, message: `${criterion.name}: ${fault.message}` }
      for (const [model, used] of Object.entries(usage)) {
        graders[model] = { ...used, total_tokens: used.prompt_tokens + used.completion_tokens }
      }
      const { name, type, passesFrom } = criterion
      results.push({ name, type, score: reward, passed: fault === undefined && reward >= passesFrom })
    }
    const isPassed = results.length === criteria.length && results.every(({ passed }) => passed)
    const status = problem !== null ? 'error' : isPassed ? 'pass' : 'fail'
    return { status, result: { results, sample: { ...sample, error: problem }, graders } }
  }

  async function answer(run: RunRecord, item: JsonObject, signal: AbortSignal) {
    let request: ReturnType<typeof requestOf>
    try {
      request = requestOf(run.source, item)
    } catch (error) {
      if (!(error instanceof VariableError)) throw error
      return failed(run, { code: 'invalid_variable_error', message: error.message })
    }
    const said = await ask(run, request.endpoint, request.body, signal)
    if (said === null) return null
    const input = request.messages.map((message) => ({
      role: String(message['role']),
      content: plain(message['content']),
    }))
    if (said.isError) return { ...failed(run, errorOf(said.body)), input }
    const chat = request.endpoint === '/v1/responses' ? chatOf(said.body) : said.body
    return { ...sampleOf(run, chat), input, model_sample: chat }
  }
}

interface Answered {
  readonly isError: boolean
  readonly body: JsonObject
}

/** Of graders/run, as far as it is read. */
interface GradedBody {
  readonly reward: number
  readonly metadata: { readonly error_details: readonly { readonly flag: string; readonly message: string }[] }
  readonly model_grader_token_usage_per_model: Readonly<
    Record<string, { prompt_tokens: number; completion_tokens: number; cached_tokens: number }>
  >
}

/** An answer of responses as one of chat. */
function chatOf(body: JsonObject): JsonObject {
  const output = Array.isArray(body['output']) ? (body['output'] as readonly JsonValue[]).filter(isJsonObject) : []
  const content = output
    .flatMap(({ content: parts }) => (Array.isArray(parts) ? (parts as readonly JsonValue[]).filter(isJsonObject) : []))
    .flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
    .join('')
  const calls = output.flatMap(({ type, call_id: id, name, arguments: given }) =>
    type === 'function_call' ? [{ id, type: 'function', function: { name, arguments: given } }] : [],
  )
  const message = { role: 'assistant', content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
  const isCut = body['status'] === 'incomplete'
  const usage = isJsonObject(body['usage']) ? body['usage'] : {}
  const cached = isJsonObject(usage['input_tokens_details']) ? usage['input_tokens_details']['cached_tokens'] : 0
  return {
    choices: [{ index: 0, message, finish_reason: isCut ? 'length' : 'stop' }],
    usage: {
      prompt_tokens: usage['input_tokens'] ?? 0,
      completion_tokens: usage['output_tokens'] ?? 0,
      prompt_tokens_details: { cached_tokens: cached ?? 0 },
    },
  } as JsonObject
}

/** What graders are given of an answer that came with its row. */
function forGrader(given: JsonValue): JsonValue {
  if (!isJsonObject(given) || Array.isArray(given['choices'])) return given
  return typeof given['output_text'] === 'string' ? given['output_text'] : stringifyExact(given)
}

/** An answer as output items show it. */
function sampleOf(run: RunRecord, answered: JsonValue): OutputItem['sample'] {
  const graded = forGrader(answered)
  const chat = (isJsonObject(graded) ? JSON.parse(stringifyExact(graded)) : {}) as {
    readonly choices?: readonly { readonly message?: { readonly content?: unknown }; readonly finish_reason?: string }[]
    readonly usage?: {
      readonly prompt_tokens?: number
      readonly completion_tokens?: number
      readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
    }
  }
  const [choice] = chat.choices ?? []
  const content = typeof graded === 'string' ? graded : plain((choice?.message?.content ?? '') as JsonValue)
  const prompt = chat.usage?.prompt_tokens ?? 0
  const completion = chat.usage?.completion_tokens ?? 0
  return {
    input: [],
    output: [{ role: 'assistant', content }],
    finish_reason: choice?.finish_reason ?? '',
    ...settingsOf(run),
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      cached_tokens: chat.usage?.prompt_tokens_details?.cached_tokens ?? 0,
      total_tokens: prompt + completion,
    },
    error: null,
  }
}

const failed = (run: RunRecord, error: NonNullable<OutputItem['sample']['error']>) => ({
  ...{ input: [], output: [], finish_reason: '', usage: NO_USAGE, error, model_sample: null },
  ...settingsOf(run),
})

function settingsOf({ source }: RunRecord) {
  const params = (source['sampling_params'] ?? {}) as JsonObject
  const number = (value: JsonValue | undefined): number | null => (typeof value === 'number' ? value : null)
  return {
    model: typeof source['model'] === 'string' ? source['model'] : '',
    temperature: number(params['temperature']),
    max_completion_tokens: number(params['max_completion_tokens'] ?? params['max_completions_tokens']),
    top_p: number(params['top_p']),
    seed: number(params['seed']),
  }
}

function errorOf(body: JsonObject): { readonly code: string; readonly message: string } {
  const { error } = body
  const { code, type, message } = isJsonObject(error) ? error : {}
  // chat's own errors have their status as a code
  const word = [code, type].find((each) => typeof each === 'string')
  return {
    code: typeof word === 'string' ? word : 'server_error',
    message: typeof message === 'string' ? message : 'no answer',
  }
}

const plain = (content: JsonValue | undefined): string =>
  typeof content === 'string' ? content : content == null ? '' : stringifyExact(content)
