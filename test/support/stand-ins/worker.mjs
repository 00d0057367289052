/**
 * A scripted training worker for tests of the queue: speaks `wire/worker.ts` over HTTP, trains nothing.
 *
 * The job's config steers it (`stand_in`): `steps`, `delay_ms` per step, `die_at` / `fail_at` / `freeze_at` a step,
 * `freeze_ms`, `beats_while_frozen`, `tokens` that train of each trajectory, `only_attempt` (the faults above happen in this attempt only), `is_empty_checkpoint`. The environment
 * variable STAND_IN_START_MS delays its first request, STAND_IN_START_ATTEMPT in that attempt only.
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeRollouts } from './rollouts.mjs'

const env = process.env
if (env.TRAINYARD_WORKER_PROBE === '1') {
  if (env.STAND_IN_PROBE_FAILS === '1') process.exit(3)
  const computing = { trainer: env.STAND_IN_PROBE_TRAINER ?? 'onnx', device: 'cpu', versions: {} }
  process.send({ type: 'ready', trainer: null, computing }, () => process.exit(0))
  await new Promise(() => undefined)
}
const root = `${env.TRAINYARD_WORKER_URL}/internal/worker/jobs/${env.TRAINYARD_WORKER_JOB}`
const attempt = Number(env.TRAINYARD_WORKER_ATTEMPT)
const headers = { authorization: `Bearer ${env.TRAINYARD_WORKER_TOKEN}`, 'x-trainyard-attempt': String(attempt) }

class Refused extends Error {}

async function call(method, path, body, more = {}) {
  const isJson = body !== undefined && !(body instanceof Uint8Array)
  const response = await fetch(root + path, {
    method,
    headers: { ...headers, ...(isJson ? { 'content-type': 'application/json' } : {}), ...more },
    ...(body === undefined ? {} : { body: isJson ? JSON.stringify(body) : body }),
  })
  if (!response.ok) throw new Refused(`${method} ${path}: ${response.status} ${await response.text()}`)
  return response
}

async function freeze({ freeze_ms: freezeMs, beats_while_frozen: isBeating }) {
  const end = performance.now() + freezeMs
  while (performance.now() < end) {
    await sleep(isBeating ? 50 : freezeMs)
    if (isBeating) await call('POST', '/heartbeat', { progress: 7 })
  }
}

async function train() {
  const job = await (await call('GET', '')).json()
  const script = { steps: 3, delay_ms: 0, freeze_ms: 0, ...job.config.stand_in }
  const isFaulty = (script.only_attempt ?? attempt) === attempt
  const input = await (await call('GET', '/input')).text()
  const rows = input.split('\n').filter((line) => line.trim() !== '')
  for (const name of job.parent_files) await (await call('GET', `/parent/${name}`)).arrayBuffer()
  let offset = 0
  const post = async (type, data) => {
    await call('POST', '/events', { offset, events: [{ type, data }] })
    offset += 1
  }
  await post('training_started', { num_sequences: script.steps })
  for (let step = 0; step < script.steps; step += 1) {
    if (isFaulty && script.die_at === step) process.kill(process.pid, 'SIGKILL')
    if (isFaulty && script.freeze_at === step) await freeze(script)
    if (isFaulty && script.fail_at === step) {
      await call('POST', '/fail', { code: 'non_finite_loss', message: `the loss became NaN at gradient step ${step}` })
      return
    }
    await sleep(script.delay_ms)
    const { is_cancel_requested: isCancelled, is_stop_requested: isStopped } = await (
      await call('POST', '/heartbeat', {})
    ).json()
    if (isCancelled) {
      await call('POST', '/fail', { code: 'cancelled', message: 'the training job was cancelled', is_cancelled: true })
      return
    }
    await post('gradient_step', { loss: 1 / (step + 1), num_rows: rows.length })
    if (isStopped) break
  }
  const contents = {
    'adapter_config.json': JSON.stringify({ r: 8, lora_alpha: 16, step: job.parent_step + 1 }),
    'adapter_model.safetensors': `weights of ${job.model_id} after step ${job.parent_step} of job ${job.id}`,
    'optimizer.safetensors': `moments of job ${job.id}`,
  }
  const files = {}
  for (const [name, text] of Object.entries(script.is_empty_checkpoint ? {} : contents)) {
    const bytes = new TextEncoder().encode(text)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    await call('PUT', `/files/${name}`, bytes, { 'x-content-sha256': sha256 })
    files[name] = { sha256, size_bytes: bytes.length }
  }
  if (job.keeps_rollouts && job.kind === 'rl') {
    const groups = rows.map((row) => JSON.parse(row))
    const notes = encodeRollouts(groups, script)
    await call('PUT', '/rollouts', new Uint8Array(notes), {
      'x-content-sha256': createHash('sha256').update(notes).digest('hex'),
      'x-trainyard-groups': String(groups.length),
      'x-trainyard-trajectories': String(groups.reduce((sum, { trajectories }) => sum + trajectories.length, 0)),
    })
  }
  const completion = { files, metrics: { 'loss/train': 0.5, 'train/reward': 0.25 } }
  await call('POST', '/complete', completion)
  // a worker that lost the answer sends it again
  await call('POST', '/complete', completion)
}

try {
  if (Number(env.STAND_IN_START_ATTEMPT ?? attempt) === attempt) await sleep(Number(env.STAND_IN_START_MS ?? 0))
  await train()
} catch (error) {
  process.stderr.write(`stand-in worker: ${error instanceof Error ? error.message : error}\n`)
  process.exitCode = error instanceof Refused ? 3 : 1
}
