/**
 * One whole step of reinforcement learning on SmolLM2-135M through HTTP, as the library's user makes it: sample groups of answers
 * from the current checkpoint, train on them, ask the new checkpoint for its first answer.
 *
 *     npm run bench -- rl-step [--prompts 16] [--answers 8] [--tokens 270] [--length 64] [--precision int8] [--kept-dir DIR]
 *
 * Serving is at int8; `--precision` is the job's. Prompts differ in every word, answers are sampled to their full length. A first,
 * smaller step starts processes and sessions; the second is measured, and its job runs in the worker that the first left warm.
 * `--kept-dir` names a data directory that keeps prepared weights from run to run. `--against PYTHON` makes the same step with TRL
 * afterwards (`pip install trl peft`), in float32 on the same weights.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { findSmolLm2, startService } from '../support/service/service-process.js'
import { textOf } from './peers/streams.js'
import { lastLine } from './support/last-line.js'
import { childrenOf, peakBytes } from './support/processes.js'

export const title = 'One step of reinforcement learning, SmolLM2-135M, through HTTP'

const BASE = 'smollm2-135m'

export async function run(options, print) {
  const modelPath = await findSmolLm2()
  if (modelPath === null) return 'there is no SmolLM2 in .cache/models'
  const { createClient, gather, group, TrainableModel } = await import('../../dist/src/rl.js')
  const size = { prompts: 16, answers: 8, tokens: 270, length: 64 }
  for (const name of Object.keys(size)) size[name] = Number(options[name] ?? size[name])
  const weights = options.against === undefined ? null : mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-weights-'))
  let seconds = Number.NaN
  const service = await startService({
    args: ['--base-model', `${BASE}=${modelPath}`, '--precision', 'int8'],
    ...(options['kept-dir'] === undefined ? {} : { keptDir: options['kept-dir'] }),
  })
  try {
    const client = createClient({ baseUrl: service.url, apiKey: service.key })
    const name = `rl-step-${Date.now()}`
    const model = await new TrainableModel(client, { name, baseModel: BASE }).register()
    const ask = async (text, { seed, length }) => {
      const trajectory = model.trajectory([{ role: 'user', content: text }])
      await trajectory.ask({ maxTokens: length, seed, temperature: 1, body: { ignore_eos: true } })
      return trajectory
    }
    const texts = await promptsOf(service, size)
    const row = (what, value, unit = 's') => print({ name: what, value, unit })
    const cores = () => processorSeconds(service.child.pid)
    const step = async (prompts, { length, seed }) => {
      const begun = performance.now()
      const before = cores()
      const groups = await gather(
        prompts.map((text, p) =>
          group(size.answers, async (index) => {
            const trajectory = await ask(text, { seed: seed + p * size.answers + index, length })
            trajectory.reward = index % 2
            return trajectory
          }),
        ),
      )
      const sampled = performance.now()
      const between = cores()
      row(`${groups.length} x ${size.answers} answers of ${length} tokens sampled`, (sampled - begun) / 1000)
      row('  processor time', between - before)
      const config = { seed: 1, ...(options.precision === undefined ? {} : { precision: options.precision }) }
      const { jobId } = await model.train(groups, { learningRate: 1e-5, config })
      const trained = performance.now()
      row('  trained on, from the request to the new checkpoint', (trained - sampled) / 1000)
      await ask('Say hello.', { seed: 1, length: 1 })
      const answered = performance.now()
      row('  processor time', cores() - between)
      row('  first answer of the new checkpoint', (answered - trained) / 1000)
      seconds = (answered - begun) / 1000
      row('  the whole step', seconds)
      return await client.trainingJobs.get(jobId)
    }
    await step(texts.slice(-1), { length: 8, seed: 1 })
    const { report } = await step(texts.slice(0, size.prompts), { length: size.length, seed: 1000 })
    for (const [part, value] of Object.entries(report.seconds)) if (value >= 0.05) row(`of the job: ${part}`, value)
    row('tokens stored in rows', report.tokens, '')
    row('memory of all processes after it, shared pages once', sharedBytes(service.child.pid) / 1e9, 'GB')
    row('sum of their peaks, shared pages in each', peakOfAll(service.child.pid) / 1e9, 'GB')
    if (weights !== null) downloadBase(service, name, weights)
  } finally {
    await service.stop()
  }
  if (weights === null) return []
  try {
    return await compare(path.resolve(options.against), { weights, size, seconds })
  } finally {
    rmSync(weights, { recursive: true, force: true })
  }
}

/** Our base model as the peer reads it, in float32. */
function downloadBase(service, name, directory) {
  const wanted = ['--step', '0', '--format', 'merged', '--precision', 'f32', '--out', directory]
  const program = path.resolve(import.meta.dirname, '../../bin/trainyard.js')
  const to = ['--server', service.url, '--api-key-file', '-']
  const options = { input: service.key, stdio: ['pipe', 'ignore', 'inherit'] }
  execFileSync(process.execPath, [program, 'checkpoints', 'download', name, ...wanted, ...to], options)
}

/** The same step by TRL, alone on the machine. */
async function compare(python, { weights, size, seconds }) {
  const [folder] = readdirSync(weights)
  const sizes = Object.entries(size).flatMap(([name, value]) => [`--${name}`, value])
  const cores = ['--threads', os.availableParallelism()]
  const script = path.join(import.meta.dirname, 'peers/trl-grpo.py')
  const peer = await lastLine(python, [script, '--weights', path.join(weights, folder), ...sizes, ...cores])
  return [
    { name: `TRL ${peer.trl}, float32: ${peer.tokens} tokens sampled`, value: peer.sampled, unit: 's' },
    { name: '  the whole step', value: peer.seconds, unit: 's', ratio: peer.seconds / seconds, target: '>= 6' },
  ]
}

/** Texts whose prompts have about as many tokens as asked for, the chat template included. */
async function promptsOf({ api }, { prompts, tokens }) {
  const count = async (text) => {
    const messages = [{ role: 'user', content: text }]
    return (await api.chat({ model: BASE, messages, max_tokens: 1 })).usage.prompt_tokens
  }
  const overhead = (await count('Words.')) - 2
  return Array.from({ length: prompts + 1 }, (_, seed) => textOf(tokens - overhead, seed + 1))
}

/** Peak resident memory of a process and its children; mapped files count in each. */
function peakOfAll(pid) {
  return childrenOf(pid).reduce((sum, child) => sum + peakOfAll(child), peakBytes(pid))
}

/** Resident memory of a process and its children, a page that several map counted once. */
function sharedBytes(pid) {
  const own = Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? Number.NaN) * 1024
  return childrenOf(pid).reduce((sum, child) => sum + sharedBytes(child), own)
}

/** Processor time of a process and its children, all cores together: on a busy machine it says more than the clock. */
function processorSeconds(pid) {
  const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).map(Number)
  return childrenOf(pid).reduce((sum, child) => sum + processorSeconds(child), (user + system) / 100)
}
