/**
 * Chats beside a training job: how much of its speed alone each keeps.
 */
import { decodeRate, stream, textOf } from './streams.js'

const STREAMS = 4
const ANSWER = 48

/**
 * @param service from `startService`
 * @param options.baseModel served there; `rows` and `words`: size of the job's data
 * @returns rows for the table
 */
export async function chatsBesideJob(service, { baseModel, rows, words, name }) {
  const { api } = service
  const side = { ...service, model: baseModel }
  const model = await api.createModel(`beside-${name}`, baseModel)
  const file = await api.uploadRows(
    Array.from({ length: rows }, (_, i) => ({
      messages: [
        { role: 'user', content: 'Write.' },
        { role: 'assistant', content: textOf(words, i) },
      ],
    })),
  )
  /** Steps a second by the times of the job's own events, start-up left out. */
  const train = async () => {
    const job = await api.call('POST', '/v1/preview/sft-training-jobs', {
      model_id: model.id,
      training_data_url: file,
      config: { batch_size: 4, learning_rate: 1e-5 },
    })
    const steps = (await api.waitForJob(job.id)).filter(({ type }) => type === 'gradient_step')
    return ((steps.length - 1) * 1000) / (Date.parse(steps.at(-1).created_at) - Date.parse(steps[0].created_at))
  }
  let seed = 1
  const chat = async (until) => {
    const rates = []
    do {
      seed += STREAMS
      const answers = await Promise.all(
        Array.from({ length: STREAMS }, (_, i) => stream(side, { text: textOf(8, seed + i), count: ANSWER })),
      )
      rates.push(decodeRate(answers))
    } while (!until())
    return rates.sort((a, b) => a - b)[rates.length >> 1]
  }
  await train()
  const jobAlone = await train()
  const endMs = performance.now() + 3000
  const chatAlone = await chat(() => performance.now() > endMs)
  let isDone = false
  const [jobBeside, chatBeside] = await Promise.all([
    train().finally(() => {
      isDone = true
    }),
    chat(() => isDone),
  ])
  const figures = [
    [`${name}: ${STREAMS} streams alone`, chatAlone, 'tok/s'],
    ['  beside a job', chatBeside, 'tok/s', chatBeside / chatAlone],
    [`${name}: a training job alone`, jobAlone, 'steps/s'],
    ['  beside the streams', jobBeside, 'steps/s', jobBeside / jobAlone],
  ]
  return figures.map(([label, value, unit, ratio]) => ({
    name: label,
    value,
    unit,
    ...(ratio === undefined ? {} : { ratio, target: 'ratio >= 0.6' }),
  }))
}
