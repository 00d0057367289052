/**
 * From the submission of a small RL job to its first gradient step, through HTTP: with a new worker and with a kept one.
 *
 * Four short answers in one group. `cold` starts a process and builds the training session; `warm` is the median of three
 * further jobs of the same model in the kept worker. The base model is prepared and loaded for serving before.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { findSmolLm2, startService } from '../support/service/service-process.js'

export const title = 'Job start: submit to first gradient step'

export async function run() {
  const rows = await measure('spark', 'trainyard/spark', [], { warm: '<= 0.5 s' })
  const modelPath = await findSmolLm2()
  if (modelPath === null) return rows
  const args = ['--base-model', `smollm2-135m=${modelPath}`, '--precision', 'f32']
  return [...rows, ...(await measure('135M', 'smollm2-135m', args, { cold: '<= 5 s', warm: '<= 2 s' }))]
}

async function measure(name, baseModel, args, targets) {
  const service = await startService({ args })
  try {
    const { api } = service
    const { id } = await api.createModel('job-start', baseModel)
    const groups = await sample(api)
    const cold = await timeJob(service, id, groups)
    const warm = []
    for (let i = 0; i < 3; i += 1) warm.push(await timeJob(service, id, groups))
    const median = (key) => warm.map((each) => each[key]).sort((a, b) => a - b)[1]
    return [
      { name: `${name}, new worker, first step`, value: cold.firstStepMs / 1000, unit: 's', target: targets.cold },
      {
        name: `${name}, kept worker, first step`,
        value: median('firstStepMs') / 1000,
        unit: 's',
        target: targets.warm,
      },
      { name: `${name}, kept worker, step itself`, value: median('stepMs') / 1000, unit: 's' },
      { name: `${name}, kept worker, whole job`, value: median('endMs') / 1000, unit: 's' },
    ]
  } finally {
    await service.stop()
  }
}

async function sample(api) {
  const messages = [{ role: 'user', content: 'Say hello.' }]
  const answer = await api.chat({ model: 'demo/job-start', messages, n: 4, max_tokens: 16, seed: 1, logprobs: true })
  return [
    {
      trajectories: answer.choices.map((choice, i) => ({
        messages_and_choices: [...messages, { ...choice, prompt_token_ids: answer.prompt_token_ids }],
        reward: i % 2,
      })),
    },
  ]
}

/** Times as a client that follows the events sees them. */
async function timeJob({ url, key, api }, modelId, groups) {
  const startedMs = performance.now()
  const config = { learning_rate: 1e-4, seed: Math.floor(startedMs) }
  const job = await api.call('POST', '/v1/preview/training-jobs', {
    model_id: modelId,
    trajectory_groups: groups,
    experimental_config: config,
  })
  const times = {}
  const response = await fetch(`${url}/v1/preview/training-jobs/${job.id}/events`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
  })
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    for (const type of chunk.match(/"type":"\w+"/g) ?? []) times[type.slice(8, -1)] ??= performance.now()
  }
  if (times.gradient_step === undefined) throw new Error(`the job made no gradient step: ${Object.keys(times)}`)
  // the kept worker says that it is free after the job's end
  await sleep(300)
  return {
    firstStepMs: times.gradient_step - startedMs,
    stepMs: times.gradient_step - times.training_started,
    endMs: times.training_ended - startedMs,
  }
}
