/**
 * Measures a model on rows by a grader: what the evals of OpenAI's API take in three requests, in one.
 */

import { type Interval, meanInterval } from '#base/statistics/interval.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { EndpointTable } from '#contract/endpoints/table.js'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import { mayAsk } from './file-tools.js'
import { askFor, pause, type Tool, type ToolCall, ToolError } from './tool.js'

/** Rows of one measurement. */
const MOST_ROWS = 500
const MOST_WAIT_S = 300
const PAGE = 100
/** Answers shown of the best and of the worst. */
const SHOWN = 5
const ENDED = ['completed', 'failed', 'canceled']

const PROPERTIES: JsonObject = {
  model: { type: 'string', description: 'Name of a model, `name:step3`, or a base model' },
  rows: {
    type: 'array',
    maxItems: MOST_ROWS,
    items: { type: 'object' },
    description: 'Rows that were not trained on: {"messages": […], and what the grader’s templates name}',
  },
  grader: { type: 'object', description: 'In OpenAI’s form; check_grader tries it' },
  pass_threshold: { type: 'number', description: 'From which score on an answer passes; default 0.5' },
  sampling_params: {
    type: 'object',
    description: 'temperature, top_p, max_completion_tokens, seed; default temperature 0',
  },
}

export function evaluateTool(table: EndpointTable, scope: KeyScope): Tool | null {
  const keys = [
    'POST /v1/evals',
    'POST /v1/evals/{eval_id}/runs',
    'GET /v1/evals/{eval_id}/runs/{eval_run_id}',
  ] as const
  if (!mayAsk(table, scope, keys)) return null
  return {
    name: 'evaluate',
    description:
      'Mean score of a model on held-out rows by a grader, with its interval, and its best and worst answers. Use it before training, ' +
      'and after with the same rows: a difference within the intervals is none.',
    inputSchema: {
      type: 'object',
      properties: PROPERTIES,
      required: ['model', 'rows', 'grader'],
      additionalProperties: false,
    },
    isReadOnly: false,
    isDestructive: false,
    run: evaluate,
  }
}

async function evaluate(given: JsonObject, call: ToolCall): Promise<JsonValue> {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(PROPERTIES, name))
  if (unknown.length > 0) {
    const known = Object.keys(PROPERTIES).join(', ')
    throw new ToolError(`evaluate has no parameter ${unknown.join(', ')}`, 'invalid_arguments', `it takes ${known}`)
  }
  const { model, rows, grader, pass_threshold: threshold = 0.5, sampling_params: sampling = { temperature: 0 } } = given
  const items = Array.isArray(rows) ? (rows as readonly JsonValue[]) : []
  if (items.length === 0 || items.length > MOST_ROWS)
    throw new ToolError(`evaluate needs 1 to ${MOST_ROWS} rows, got ${items.length}`, 'invalid_arguments', null)
  const wrong = items.findIndex((row) => !isJsonObject(row) || !Array.isArray(row['messages']))
  if (wrong !== -1)
    throw new ToolError(
      `rows[${wrong}] has no messages`,
      'invalid_arguments',
      'each is {"messages": [{"role": "user", …}], …}',
    )
  if (!isJsonObject(grader)) throw new ToolError('evaluate needs a grader, an object', 'invalid_grader', null)
  const created = (await askFor(call, 'POST', '/v1/evals', {
    name: `evaluate ${String(model)}`.slice(0, 256),
    data_source_config: { type: 'custom', item_schema: { type: 'object' } },
    testing_criteria: [{ pass_threshold: threshold, ...grader }],
  })) as JsonObject
  const runs = `/v1/evals/${String(created['id'])}/runs`
  const run = (await askFor(call, 'POST', runs, {
    data_source: {
      type: 'completions',
      model: model ?? null,
      input_messages: { type: 'item_reference', item_reference: 'item.messages' },
      sampling_params: sampling,
      source: { type: 'file_content', content: items.map((item) => ({ item })) },
    },
  })) as JsonObject
  const path = `${runs}/${String(run['id'])}`
  const ended = await untilEnded(run, path, items.length, call)
  if (ended['status'] !== 'completed') {
    const { message, code } = (ended['error'] ?? {}) as JsonObject
    const said = message ?? `the measurement is ${String(ended['status'])} after ${MOST_WAIT_S} s`
    throw new ToolError(String(said), String(code ?? 'eval_not_ended'), 'fewer rows take less time')
  }
  return {
    eval_id: created['id'] ?? null,
    ...summaryOf(ended, await outputItems(`${path}/output_items`, call), grader),
  }
}

async function untilEnded(first: JsonObject, path: string, rows: number, call: ToolCall): Promise<JsonObject> {
  const until = performance.now() + MOST_WAIT_S * 1000
  let run = first
  let told = -1
  while (!ENDED.includes(String(run['status'])) && performance.now() < until) {
    await pause(500, call.signal)
    run = (await askFor(call, 'GET', path)) as JsonObject
    const done = Number((run['result_counts'] as JsonObject)['total'])
    if (done !== told) await call.progress(done, rows, 'answers graded')
    told = done
  }
  return run
}

async function outputItems(path: string, call: ToolCall): Promise<readonly JsonObject[]> {
  const all: JsonObject[] = []
  for (let after = ''; ; ) {
    const page = (await askFor(call, 'GET', `${path}?limit=${PAGE}${after}`)) as JsonObject
    const data = page['data'] as readonly JsonObject[]
    append(all, data)
    const last = data.at(-1)?.['id']
    if (page['has_more'] !== true || last === undefined) return all
    after = `&after=${encodeURIComponent(String(last))}`
  }
}

/** Of its scores; null where a formula or a program says them. */
function rangeOf({ type, range }: JsonObject): Interval | null {
  if (Array.isArray(range)) return [Number(range[0]), Number(range[1])]
  return ['multi', 'python', 'endpoint'].includes(String(type)) ? null : [0, 1]
}

function summaryOf(run: JsonObject, items: readonly JsonObject[], grader: JsonObject): JsonObject {
  const scored = items.map((item) => {
    const [result] = item['results'] as readonly JsonObject[]
    const sample = item['sample'] as JsonObject
    const output = (sample['output'] as readonly JsonObject[]).at(-1)
    const row = item['datasource_item'] as JsonObject
    return {
      score: Number(result?.['score'] ?? 0),
      prompt: (row['messages'] as readonly JsonObject[]).at(-1)?.['content'] ?? null,
      answer: output?.['content'] ?? null,
      status: item['status'] ?? null,
    }
  })
  const scores = scored.filter(({ status }) => status !== 'error').map(({ score }) => score)
  const mean = scores.reduce((sum, score) => sum + score, 0) / Math.max(scores.length, 1)
  const byScore = [...scored].sort((a, b) => b.score - a.score)
  return {
    status: run['status'] ?? null,
    mean_score: mean,
    interval_95: (meanInterval(scores, rangeOf(grader)) as JsonValue | null) ?? null,
    counts: run['result_counts'] ?? null,
    best: byScore.slice(0, SHOWN),
    worst: byScore.slice(-SHOWN).reverse(),
  }
}
