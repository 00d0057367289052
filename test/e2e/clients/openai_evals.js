/**
 * Uploads, batches and evals with the stock `openai` client for Node.js: FOLDER BASE_URL API_KEY BASE_MODEL; one JSON line.
 */
import { createRequire } from 'node:module'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const [folder, baseUrl, apiKey, model] = process.argv.slice(2)
const { default: OpenAI, toFile } = createRequire(path.join(folder, 'package.json'))('openai')
const client = new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey })
const seen = {}

async function untilEnded(read, statuses) {
  for (;;) {
    const now = await read()
    if (statuses.includes(now.status)) return now
    await sleep(200)
  }
}
async function all(pages) {
  const found = []
  for await (const each of pages) found.push(each)
  return found
}

const lines = [0, 1, 2, 3, 4].map((n) => ({
  custom_id: `line-${n}`,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model, messages: [{ role: 'user', content: `Number ${n}?` }], max_tokens: 4 },
}))
const text = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
const begun = await client.uploads.create({
  filename: 'lines.jsonl',
  bytes: text.length,
  mime_type: 'application/jsonl',
  purpose: 'batch',
})
const parts = []
for (let at = 0; at < text.length; at += 200) {
  const data = await toFile(text.subarray(at, at + 200), 'part')
  parts.push((await client.uploads.parts.create(begun.id, { data })).id)
}
const upload = await client.uploads.complete(begun.id, { part_ids: parts })
seen.upload = [upload.status, upload.file.bytes === text.length]

let batch = await client.batches.create({
  input_file_id: upload.file.id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
  metadata: { of: 'lines' },
})
batch = await untilEnded(() => client.batches.retrieve(batch.id), ['completed', 'failed', 'expired'])
const output = await (await client.files.content(batch.output_file_id)).text()
const answered = output
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line).custom_id)
seen.batch = [
  batch.status,
  batch.request_counts.completed,
  answered.sort().join() === lines.map((line) => line.custom_id).join(),
  (await client.batches.list({ limit: 1 })).data[0].id === batch.id,
]

const templates = { input: '{{ sample.output_text }}', reference: '{{ item.answer }}' }
const made = await client.evals.create({
  name: 'numbers',
  data_source_config: {
    type: 'custom',
    item_schema: { type: 'object', properties: { answer: { type: 'string' } }, required: ['answer'] },
    include_sample_schema: true,
  },
  testing_criteria: [
    { type: 'string_check', name: 'equal', operation: 'eq', ...templates },
    { type: 'text_similarity', name: 'near', evaluation_metric: 'fuzzy_match', pass_threshold: 0.5, ...templates },
  ],
  metadata: { client: 'node' },
})
seen.eval = [
  made.object,
  made.data_source_config.type,
  made.testing_criteria.map(({ type }) => type),
  (await client.evals.retrieve(made.id)).name,
  (await client.evals.update(made.id, { name: 'renamed' })).name,
  (await client.evals.list({ order: 'desc', limit: 2 })).data.some(({ id }) => id === made.id),
]

const of = { eval_id: made.id }
const ended = ['completed', 'failed', 'canceled']
const content = ['4', '5'].map((said) => ({ item: { answer: '4' }, sample: { output_text: said } }))
let run = await client.evals.runs.create(made.id, {
  name: 'given',
  data_source: { type: 'jsonl', source: { type: 'file_content', content } },
})
run = await untilEnded(() => client.evals.runs.retrieve(run.id, of), ended)
const items = await all(client.evals.runs.outputItems.list(run.id, { ...of, limit: 1 }))
const { total, passed, failed, errored } = run.result_counts
seen.given = [
  run.status,
  [total, passed, failed, errored],
  run.per_testing_criteria_results.map((each) => [each.testing_criteria, each.passed]),
  items.map(({ status }) => status),
  items[0].results[0].passed,
  (await client.evals.runs.outputItems.retrieve(items[1].id, { ...of, run_id: run.id })).datasource_item_id,
]

const rows = await toFile(Buffer.from('{"item": {"question": "one", "answer": "x"}}\n'), 'rows.jsonl')
const file = await client.files.create({ file: rows, purpose: 'evals' })
const asking = { type: 'input_text', text: 'Say {{ item.question }}.' }
let asked = await client.evals.runs.create(made.id, {
  data_source: {
    type: 'completions',
    model,
    input_messages: { type: 'template', template: [{ type: 'message', role: 'user', content: asking }] },
    sampling_params: { max_completion_tokens: 6, temperature: 0, seed: 7 },
    source: { type: 'file_id', id: file.id },
  },
})
asked = await untilEnded(() => client.evals.runs.retrieve(asked.id, of), ended)
const [item] = await all(client.evals.runs.outputItems.list(asked.id, of))
seen.asked = [
  asked.status,
  asked.per_model_usage[0].model_name === model,
  asked.per_model_usage[0].invocation_count,
  item.sample.input[0].content,
  item.sample.usage.completion_tokens <= 6,
]
const listed = await all(client.evals.runs.list(made.id, { order: 'asc' }))
seen.runs = listed.map(({ id }) => id).join() === [run.id, asked.id].join()
seen.deleted = [(await client.evals.runs.delete(run.id, of)).deleted, (await client.evals.delete(made.id)).deleted]
try {
  await client.evals.retrieve(made.id)
} catch (error) {
  if (error instanceof OpenAI.NotFoundError) seen.gone = error.code
}
process.stdout.write(`${JSON.stringify(seen)}\n`)
