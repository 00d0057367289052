/**
 * Runs one state transition of a service on a data directory and kills itself, as by SIGKILL, just before its n-th write.
 *
 *     node crash-at-write.mjs <data directory> <transition> <n>     0: to its end, printing how many writes there were and its result
 *     node crash-at-write.mjs <data directory> <transition> 0 <points>  the same; before each of these writes the directory is copied
 *
 * A copy has what a kill at that point would leave: everything that was handed to the system, and no process that holds it. One process
 * makes as many as are wanted, in the time that one kill takes; `crash-runs.mjs` does one run after the other, where none dies.
 *
 * This is a process that dies, not a machine that loses power: the order of fsync is not tried here.
 *
 * Transitions use the built service's own functions; only ids are made here.
 */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs/promises'
import { createLogger } from '../../../dist/src/base/logging/logger.js'
import { systemClock } from '../../../dist/src/base/util/clock.js'
import { systemIds as ids } from '../../../dist/src/base/util/ids.js'
import { createFineTuningService } from '../../../dist/src/plugins/fine-tuning/fine-tuning.js'
import { createKeyService } from '../../../dist/src/plugins/keys/keys.js'
import { createOutbox } from '../../../dist/src/plugins/webhooks/outbox.js'
import { DEFAULT_OUTBOX_TIMING } from '../../../dist/src/plugins/webhooks/timing.js'
import { createWebhookService } from '../../../dist/src/plugins/webhooks/webhooks.js'
import { DEFAULT_BODY_LIMITS } from '../../../dist/src/service/bodies/bodies.js'
import { createGroupReading } from '../../../dist/src/service/bodies/group-reading.js'
import { parseBody } from '../../../dist/src/service/bodies/parse-body.js'
import { createActivityFeed } from '../../../dist/src/service/operations/activity/feed.js'
import { createFileService } from '../../../dist/src/service/operations/files.js'
import { createCheckpointService } from '../../../dist/src/service/operations/models/checkpoints.js'
import { createModelService } from '../../../dist/src/service/operations/models/models.js'
import { createTrainingJobService } from '../../../dist/src/service/operations/training/training-jobs.js'
import { createTrajectoryLogService } from '../../../dist/src/service/operations/trajectory-log.js'
import { appendEvents } from '../../../dist/src/service/queue/event-log.js'
import { withLease } from '../../../dist/src/service/queue/lease.js'
import { completeJob, failAttempt, requestCancel } from '../../../dist/src/service/queue/outcome.js'
import { claimNextJob, createJob } from '../../../dist/src/service/queue/queue.js'
import { recoverInterrupted, releaseAttempt } from '../../../dist/src/service/queue/recovery.js'
import { createLocalBlobs } from '../../../dist/src/service/storage/blobs/local-blobs.js'
import { openDataDir } from '../../../dist/src/service/storage/data-dir.js'
import { openDatabase } from '../../../dist/src/service/storage/database.js'
import { putJobFile } from '../../../dist/src/service/storage/jobs/files.js'
import { putResumePoint } from '../../../dist/src/service/storage/jobs/resume-points.js'
import { bodyOf, parts } from '../built-parts.mjs'
import { moreTransitions } from './crash-transitions.mjs'
import { countWrites } from './crash-writes.mjs'

const given = new URL(import.meta.url).searchParams.get('run')
const [root, name, point, points = ''] = given === null ? process.argv.slice(2) : JSON.parse(given)
const dieAt = Number(point)
const copiedAt = new Set(points.split(',').map(Number))
/** By another process: one that closes a file gives up the locks that it has on it through other descriptors. */
function copyAside(target) {
  const { status, stderr } = spawnSync('cp', ['-a', root, target], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`cp: ${stderr}`)
}

function noteWrite(writes) {
  if (writes === dieAt) process.kill(process.pid, 'SIGKILL')
  if (copiedAt.has(writes)) copyAside(`${root} ${writes}`)
}

const dataDir = await openDataDir(root)
const { db, close } = await openDatabase(dataDir.databasePath, { parts })
const blobs = await createLocalBlobs(dataDir.blobsPath)
const context = {
  db,
  blobs,
  ids,
  logger: createLogger({ level: 'silent' }),
  baseModels: [{ name: 'base', sourcePath: '' }],
  engines: { forgetAdapter: () => undefined },
  // small bodies, read as the server reads them
  bodies: {
    limits: DEFAULT_BODY_LIMITS,
    parseFile: async (kind, path) => parseBody(kind, [await fs.readFile(path)]),
  },
  modelFacts: { parametersOf: async () => 4_500_000 },
  signals: { notify: () => undefined },
  activity: createActivityFeed({ clock: systemClock, ids }),
  dispatcher: { wake: () => undefined, remoteWorkers: () => [] },
  clock: systemClock,
  trainWorkers: 1,
  deviceNotes: [],
  maxQueuedJobs: 100,
  keepTrainingDataMs: 86_400_000,
  requestSweep: () => undefined,
}
const principal = { entity: 'local', project: null, keyId: 'k', keyPrefix: 'ty_', scope: 'admin', usageProject: null }
const WORKER = { name: 'here', trainer: 'onnx', device: 'cpu', versions: {} }
const LEASE = { owner: 'test', leaseMs: 60_000, worker: WORKER, tenant: null, trainers: ['onnx'], memoryBytes: null }
const modelRequest = (model) => ({ project: 'p', name: model, base_model: 'base' })
const models = createModelService(context)

async function submit(modelId, text) {
  const input = await blobs.put([Buffer.from(text)])
  const job = {
    entity: 'local',
    project: 'p',
    usageProject: null,
    modelId,
    kind: 'rl',
    config: {},
    sourceUrl: null,
    dataNotes: [],
  }
  const created = { ...job, id: ids.uuid(), inputSha256: input.sha256, requestDigest: text }
  return (await createJob(db, created, { idempotencyKey: `job ${text}`, isRetry: false, maxUnfinished: 100 })).job
}

async function claim(lease = {}) {
  const claimed = await claimNextJob(db, ids, { ...LEASE, ...lease })
  return { jobId: claimed.job.id, attempt: claimed.job.attempt, token: claimed.token }
}

const put = async (attempt, file, text) => {
  const blob = await blobs.put([Buffer.from(text)])
  await withLease(db, attempt, (transaction) =>
    putJobFile(transaction, attempt, { name: file, sha256: blob.sha256, sizeBytes: blob.sizeBytes }),
  )
  return { sha256: blob.sha256, sizeBytes: blob.sizeBytes }
}

async function upload(attempt) {
  const files = {}
  for (const file of ['adapter_config.json', 'adapter_model.safetensors']) {
    files[file] = await put(attempt, file, `${file} of ${attempt.jobId}`)
  }
  return files
}

async function complete(attempt, files) {
  const manifest = await blobs.put([Buffer.from(`manifest of ${attempt.jobId}`)])
  await completeJob(db, ids, attempt, { files, manifest, metrics: { loss: 1 } })
}

const started = (attempt) =>
  withLease(db, attempt, (transaction) =>
    appendEvents(transaction, ids, attempt.jobId, {
      offset: 0,
      events: [
        { type: 'training_started', data: { num_sequences: 2 } },
        { type: 'gradient_step', data: { loss: 1 } },
      ],
    }),
  )

const files = createFileService(context)
const uploadRows = (text, purpose, key = null) =>
  files.upload(principal, [Buffer.from(text)], async () => ({ filename: 'a', purpose, artifact: null }), key)

/** @returns what creates a fine-tuning job of that model */
async function fineTuning(model) {
  const row = { messages: ['user', 'assistant'].map((role) => ({ role, content: 'x' })) }
  const file = await uploadRows(`${JSON.stringify(row)}\n`, 'fine-tune')
  const services = { models, trainingJobs: createTrainingJobService(context) }
  const request = { model, training_file: file.id }
  return () => createFineTuningService(context, services).create(principal, request, { idempotencyKey: 'key' })
}

/** A body of one group, as the routes hand it on. */
function receivedGroups() {
  const trajectories = [{ messages_and_choices: [{ role: 'user', content: 'q' }], reward: 1 }]
  const bytes = Buffer.from(JSON.stringify({ split: 'val', trajectory_groups: [{ trajectories }] }))
  const targetPath = blobs.temporaryPath()
  const name = 'POST /v1/preview/models/{model_id}/log'
  const task = { name, source: { bytes }, targetPath, maxGroupBytes: 1e6 }
  const reading = createGroupReading(task, bodyOf(name))
  for (;;) {
    const read = reading.step()
    if (read !== null) return { ...read, path: targetPath }
  }
}

const outbox = () =>
  createOutbox({ ...context, rules: {}, version: '0', timing: { ...DEFAULT_OUTBOX_TIMING, pollMs: 3_600_000 } })
const webhooks = createWebhookService(context, {
  rules: { check: (url) => new URL(url) },
  outbox: { wake: () => undefined },
})
const listen = () => webhooks.create(principal, { url: 'https://example.com/hook' }, 'key')
const listenAt = (url, rules) =>
  createWebhookService(context, { rules, outbox: { wake: () => undefined } }).create(
    principal,
    { url, events: ['checkpoint.created'] },
    null,
  )

/** Looks for new events once, and sends nothing. */
async function collect() {
  const once = outbox()
  once.wake()
  await once.stop()
}

/** A model with a checkpoint, and a job of it that runs and has told of a step. */
async function prepare(lease = {}) {
  const model = await models.create(principal, modelRequest('m'), null)
  await submit(model.id, 'first')
  const first = await claim()
  await started(first)
  await complete(first, await upload(first))
  await submit(model.id, 'second')
  const attempt = await claim(lease)
  await started(attempt)
  return { model, attempt }
}

/** Transition → what it starts from, and itself. */
const transitions = {
  'create model': () => () => models.create(principal, modelRequest('new'), 'key'),
  'create key': () => () => createKeyService(context).create(principal, { scope: 'read' }, null),
  'revoke key': async () => {
    const keys = createKeyService(context)
    const { id } = await keys.create(principal, { scope: 'read' }, null)
    return () => keys.delete(principal, id)
  },
  'upload file': () => () => uploadRows('rows', 'fine-tune', 'key'),
  'delete file': async () => {
    const { id } = await uploadRows('rows', 'fine-tune')
    return () => files.delete(principal, id)
  },
  'create fine-tuning job': async () => {
    await models.create(principal, modelRequest('m'), null)
    return fineTuning('local/p/m')
  },
  'create fine-tuning job of a base model': () => fineTuning('base'),
  'log trajectories': async () => {
    const { model } = await prepare()
    const log = createTrajectoryLogService(context)
    return () => log.log(principal, model.id, receivedGroups(), { idempotencyKey: 'key', isRetry: false })
  },
  'create webhook': () => listen,
  'tell webhooks': async () => {
    await listen()
    await prepare()
    return collect
  },
  'send a message again': async () => {
    const { id } = await listen()
    await prepare()
    await collect()
    const [delivery] = (await webhooks.deliveries(principal, id, {})).data
    return () => webhooks.redeliver(principal, id, delivery.id)
  },
  'delete webhook': async () => {
    const { id } = await listen()
    await prepare()
    await collect()
    return () => webhooks.delete(principal, id)
  },
  'create job': async () => {
    const model = await models.create(principal, modelRequest('m'), null)
    return () => submit(model.id, 'new')
  },
  'claim job': async () => {
    await submit((await models.create(principal, modelRequest('m'), null)).id, 'new')
    return () => claim()
  },
  'append events': async () => {
    const { attempt } = await prepare()
    const events = [{ type: 'gradient_step', data: { loss: 2 } }]
    return () =>
      withLease(db, attempt, (transaction) => appendEvents(transaction, ids, attempt.jobId, { offset: 2, events }))
  },
  'store resume point': async () => {
    const { attempt } = await prepare()
    return async () => {
      const { sha256, sizeBytes } = await blobs.put([Buffer.from('point')])
      await withLease(db, attempt, (transaction) =>
        putResumePoint(transaction, attempt.jobId, { parentStep: 1, eventCount: 2, sha256, sizeBytes }),
      )
    }
  },
  'store file': async () => {
    const { attempt } = await prepare()
    return () => put(attempt, 'adapter_config.json', 'a file')
  },
  'complete job': async () => {
    const { attempt } = await prepare()
    const files = await upload(attempt)
    return () => complete(attempt, files)
  },
  'fail job': async () => {
    const { attempt } = await prepare()
    return () => failAttempt(db, ids, attempt, { code: 'x', message: 'it broke', isCancelled: false })
  },
  'cancel queued job': async () => {
    const job = await submit((await models.create(principal, modelRequest('m'), null)).id, 'new')
    return () => requestCancel(db, ids, job.id)
  },
  'cancel running job': async () => {
    const { attempt } = await prepare()
    return () => requestCancel(db, ids, attempt.jobId)
  },
  'release lost job': async () => {
    const { attempt } = await prepare()
    return () => releaseAttempt(db, ids, { ...attempt, reason: 'lost', isOrderly: false })
  },
  'recover at start': async () => {
    await prepare()
    return () => recoverInterrupted(db, ids, 60_000)
  },
  'delete checkpoint': async () => {
    const { model, attempt } = await prepare()
    await requestCancel(db, ids, attempt.jobId)
    await recoverInterrupted(db, ids, 60_000)
    return () => createCheckpointService(context).delete(principal, model.id, [1])
  },
  'delete model': async () => {
    const { model } = await prepare()
    return () => models.delete(principal, model.id)
  },
  ...moreTransitions({
    ...{ context, principal, dataDir, root, models },
    ...{ prepare, listenAt, collect, uploadRows },
  }),
}

/** What is begun again by whoever finds it undone, and must then come out the same. */
const REPEATED = ['prepare a base model', 'write a built-in model', 'make a backup', 'restore a backup']

async function runTransition() {
  const transition = await transitions[name]()
  // what came before is on the disk, as it would be long before
  const { writes, result } = await countWrites(dieAt >= 0 ? transition : () => null, noteWrite)
  return { writes, result: REPEATED.includes(name) ? result : null }
}
export const outcome =
  name === 'list' ? { transitions: Object.keys(transitions), repeated: REPEATED } : await runTransition()
await close()
dataDir.unlock()
if (given === null) process.stdout.write(JSON.stringify(outcome))
