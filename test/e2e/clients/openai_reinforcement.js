/**
 * A reinforcement job with the stock `openai` client for Node.js, as its guides have it: FOLDER BASE_URL API_KEY BASE_MODEL; one JSON line.
 */
import { createRequire } from 'node:module'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const [folder, baseUrl, apiKey, model] = process.argv.slice(2)
const { default: OpenAI, toFile } = createRequire(path.join(folder, 'package.json'))('openai')
const client = new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey })
const seen = {}

const grader = {
  type: 'string_check',
  name: 'right',
  operation: 'like',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}
const { graders } = client.fineTuning.alpha
seen.validated = (await graders.validate({ grader })).grader.type === 'string_check'
seen.graded = (await graders.run({ grader, item: { answer: '4' }, model_sample: 'it is 4' })).reward

const near = {
  type: 'text_similarity',
  name: 'near',
  evaluation_metric: 'fuzzy_match',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}
const mail = (n) => `Hello, where is order ${n}? Regards, Tom. Which number is the order?`
const rows = [20, 21, 22, 23, 24, 25, 26, 27].map((n) => ({
  messages: [{ role: 'user', content: mail(n) }],
  answer: `${n}`,
}))
const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('')
const file = await client.files.create({ file: await toFile(Buffer.from(text), 'rows.jsonl'), purpose: 'fine-tune' })

const create = (wanted) =>
  client.fineTuning.jobs.create({
    model,
    training_file: file.id,
    validation_file: file.id,
    suffix: 'js',
    metadata: { client: 'node' },
    method: {
      type: 'reinforcement',
      reinforcement: {
        grader: wanted,
        hyperparameters: { batch_size: 4, n_epochs: 1, reasoning_effort: 'default' },
      },
    },
  })

seen.refused = []
for (const wanted of [
  { type: 'python', source: 'x', name: 'x' },
  { ...grader, reference: '{{item.gone}}' },
]) {
  try {
    await create(wanted)
  } catch (error) {
    if (error instanceof OpenAI.BadRequestError || error instanceof OpenAI.PermissionDeniedError)
      seen.refused.push(error.param)
  }
}

let job = await create(near)
seen.created = [job.object, job.method.type, job.method.reinforcement.hyperparameters.batch_size]

async function waitFor(status) {
  for (;;) {
    const now = await client.fineTuning.jobs.retrieve(job.id)
    if (now.status === status || now.finished_at !== null) return now
    await sleep(200)
  }
}

await client.fineTuning.jobs.pause(job.id)
seen.paused = (await waitFor('paused')).status === 'paused'
seen.resumed = ['queued', 'running'].includes((await client.fineTuning.jobs.resume(job.id)).status)
job = await waitFor('succeeded')
seen.ended = [job.status, job.fine_tuned_model !== null]
const steps = []
for await (const { type, data } of client.fineTuning.jobs.listEvents(job.id, { limit: 4 })) {
  if (type === 'metrics' && data.train_mean_reward !== undefined) steps.push(data.step)
}
seen.metrics = steps.join() === '2,1'
const checkpoints = (await client.fineTuning.jobs.checkpoints.list(job.id)).data
seen.checkpoint = checkpoints[0].fine_tuned_model_checkpoint === job.fine_tuned_model
seen.result = (await (await client.files.content(job.result_files[0])).text()).split('\n')[0]
const listed = []
for await (const each of client.fineTuning.jobs.list({ metadata: { client: 'node' } })) listed.push(each.id)
seen.listed = listed.join() === job.id
const reply = await client.chat.completions.create({
  model: job.fine_tuned_model,
  messages: rows[0].messages,
  max_tokens: 8,
})
seen.answer = reply.choices.length === 1
process.stdout.write(`${JSON.stringify(seen)}\n`)
