/**
 * Supervised fine-tuning on real text: the capitals of the world (npm package `countries-list`, MIT), on SmolLM2-135M.
 *
 * Two thirds of the countries are trained on, one third is held out. Shown before and after: recall (the exact capital) on
 * trained rows, and format (a bare name, no sentence) on held-out rows, where nothing but the form can be learned.
 *
 *     npm run build && npm run model:smollm2 && node test/bench/demo/demo-sft.js [epochs=4]
 */
import { countries } from 'countries-list'
import { findSmolLm2, mapConcurrently, startService } from '../../support/service/service-process.js'

const EPOCHS = Number(process.argv[2] ?? 4)
const BATCH_SIZE = 8
const PEAK_LEARNING_RATE = 1e-3

const rows = Object.values(countries)
  .filter((country) => country.capital !== '' && country.partOf === undefined)
  .map((country) => ({ question: `What is the capital of ${country.name}?`, answer: country.capital }))
const trained = rows.filter((_, index) => index % 3 !== 2)
const heldOut = rows.filter((_, index) => index % 3 === 2)

const modelPath = await findSmolLm2()
if (modelPath === null) throw new Error('SmolLM2 is not here; run `npm run model:smollm2` first')
const service = await startService({ args: ['--base-model', `smollm2-135m=${modelPath}`] })
try {
  const { api } = service
  const model = await api.createModel('capitals', 'smollm2-135m')

  const isBareName = (text) => /^\p{Lu}[^\n.!?:]{0,40}$/u.test(text.trim()) && text.trim().split(/\s+/).length <= 5

  async function evaluate(step) {
    const name = `demo/capitals${step === 0 ? '' : `:step${step}`}`
    const ask = (row) =>
      api
        .chat({
          model: step === 0 ? 'smollm2-135m' : name,
          messages: [{ role: 'user', content: row.question }],
          temperature: 0,
          max_tokens: 24,
        })
        .then((answer) => answer.choices[0].message.content.trim())
    const answers = { trained: await mapConcurrently(trained, 8, ask), heldOut: await mapConcurrently(heldOut, 8, ask) }
    const share = (list, test) => list.filter(test).length / list.length
    return {
      answers,
      recall: share(answers.trained, (text, index) => text === trained[index].answer),
      recallHeldOut: share(answers.heldOut, (text, index) => text === heldOut[index].answer),
      mentions: share(answers.trained, (text, index) => text.includes(trained[index].answer)),
      format: share(answers.heldOut, isBareName),
    }
  }

  const before = await evaluate(0)
  const data = Array.from({ length: EPOCHS }, () => trained).flat()
  const total = Math.ceil(data.length / BATCH_SIZE)
  const file = await api.uploadRows(
    data.map((row) => ({
      messages: [
        { role: 'user', content: row.question },
        { role: 'assistant', content: row.answer },
      ],
    })),
  )
  const startedAt = performance.now()
  const job = await api.call('POST', '/v1/preview/sft-training-jobs', {
    model_id: model.id,
    training_data_url: file,
    config: {
      batch_size: BATCH_SIZE,
      learning_rate: Array.from(
        { length: total },
        (_, step) => PEAK_LEARNING_RATE * Math.min(1, (step + 1) / 5) * (1 - step / total),
      ),
    },
  })
  const events = await api.waitForJob(job.id, (event) => {
    if (event.type !== 'gradient_step') return
    const { loss, grad_norm: norm, tokens_per_second: speed } = event.data
    process.stdout.write(`  loss ${loss.toFixed(4)}  grad norm ${norm.toFixed(3)}  ${Math.round(speed)} tokens/s\n`)
  })
  const seconds = (performance.now() - startedAt) / 1000
  const losses = events.filter((event) => event.type === 'gradient_step').map((event) => event.data.loss)
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length
  const after = await evaluate(1)

  const percent = (value) => `${(100 * value).toFixed(1)}%`
  console.table({
    'recall, trained rows (exact)': { before: percent(before.recall), after: percent(after.recall) },
    'capital mentioned, trained rows': { before: percent(before.mentions), after: percent(after.mentions) },
    'format, held-out rows (bare name)': { before: percent(before.format), after: percent(after.format) },
    'recall, held-out rows (exact)': { before: percent(before.recallHeldOut), after: percent(after.recallHeldOut) },
  })
  const perEpoch = losses.length / EPOCHS
  console.log(
    `loss by epoch: ${Array.from({ length: EPOCHS }, (_, epoch) => mean(losses.slice(Math.round(epoch * perEpoch), Math.round((epoch + 1) * perEpoch))).toFixed(4)).join(' → ')}`,
  )
  console.log(
    `${trained.length} rows trained, ${heldOut.length} held out, ${losses.length} steps in ${seconds.toFixed(0)} s`,
  )
  for (const index of [0, 20, 40, 60]) {
    console.log(
      `${trained[index].question}\n  before: ${before.answers.trained[index]}\n  after:  ${after.answers.trained[index]}`,
    )
  }
  for (const index of [1, 11, 21]) {
    console.log(
      `${heldOut[index].question} (held out)\n  before: ${before.answers.heldOut[index]}\n  after:  ${after.answers.heldOut[index]}`,
    )
  }
} finally {
  await service.stop()
}
