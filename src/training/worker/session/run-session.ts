/**
 * A worker that holds a training session: restores its state, then carries out the server's orders one after the other.
 *
 * Knows the protocol and nothing of clients: the server decides which request an order comes from, when state is
 * stored, and what is repeated after a worker was lost. An order that fails is reported and has changed nothing.
 */
import { AppError, CheckpointError, fullMessage, InvalidRequestError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import { type FileContent, sha256Of, sizeOf } from '#base/util/file-content.js'
import { decodeFrame, encodeFrame } from '#base/util/frame.js'
import { type ResumedBody, rangeHeaders, readResumed } from '#base/util/resumed-body.js'
import {
  type RequestReport,
  type SessionFile,
  type SessionOrder,
  type SessionReport,
  sessionOrderSchema,
  type TrainingSessionSpec,
  trainingSessionSpecSchema,
} from '#contract/processes/training-session.js'
import { type BaseModelFiles, baseModelFilesSchema, type WorkerFolders } from '#contract/processes/worker.js'
import { MAX_MESSAGE } from '#contract/wire/maxima.js'
import { checkLossRequest, type RowLimits } from '#formats/training-loop/loss-inputs.js'
import { readLossRequest } from '#formats/training-loop/loss-request.js'
import { encodeLossOutput } from '#formats/training-loop/results.js'
import { parameterCount } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { placeOfBaseModel } from '#model/weights/fetch-base-model.js'
import { threadsFor } from '#numerics/runtime/default-threads.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { createLiveSession, type LiveSession } from '#training/session/live-session.js'
import { decodeSessionState, newSessionState, OPTIMIZER_KIND } from '#training/session/session-state.js'
import type { LearnerState } from '#training/trainer/learner/learner.js'
import { openOnnxLearner } from '#training/trainer/learner/onnx-learner.js'
import type { OpenBaseModel } from '../base-model.js'
import { countRuns } from '../counted-runtime.js'
import { createFencedRequests, type WorkerIdentity } from '../fenced-requests.js'
import { startHeartbeat } from '../heartbeat.js'
import { fetchFile } from '../read-files.js'

/**
 * The training worker's side of the protocol of training sessions (`contract/processes/training-session.ts`).
 */
const BYTES = { 'content-type': 'application/octet-stream' }

interface SessionClient {
  getSession(): Promise<TrainingSessionSpec>
  getBaseModelFiles(): Promise<BaseModelFiles>
  openBaseModelFile(name: string, from: number): Promise<ResumedBody>
  /** @throws {CheckpointError} `checkpoint_corrupt` if the bytes do not have the digest */
  getFile(file: SessionFile): Promise<FileContent>
  putFile(name: string, content: FileContent): Promise<SessionFile>
  /** Reports the last order and waits for the next. */
  turn(
    report: SessionReport,
    output?: Uint8Array,
  ): Promise<{ readonly order: SessionOrder; readonly bytes: Uint8Array }>
}

function createSessionClient(identity: WorkerIdentity): SessionClient {
  const send = createFencedRequests(identity)
  return {
    getSession: async () => trainingSessionSpecSchema.parse(await (await send('GET', '')).json()),
    getBaseModelFiles: async () => baseModelFilesSchema.parse(await (await send('GET', '/base-model')).json()),
    openBaseModelFile: async (name, from) =>
      readResumed(await send('GET', `/base-model/${name}`, { headers: rangeHeaders(from) })),
    getFile: async ({ name, sha256 }) => {
      const { bytes } = await fetchFile(send, `/files/${sha256}`)
      if (sha256Of(bytes) === sha256) return bytes
      throw new CheckpointError('checkpoint_corrupt', `"${name}" of the training session does not have its digest`)
    },
    putFile: async (name, content) => {
      const sha256 = sha256Of(content)
      await send('PUT', `/files/${sha256}`, { body: content, headers: BYTES })
      return { name, sha256, size_bytes: sizeOf(content) }
    },
    turn: async (report, output) => {
      const response = await send('POST', '/turn', { body: encodeFrame(report, output), headers: BYTES })
      const { head, bytes } = decodeFrame(new Uint8Array(await response.arrayBuffer()))
      return { order: sessionOrderSchema.parse(head), bytes }
    },
  }
}

export interface RunSessionOptions {
  readonly identity: WorkerIdentity
  readonly folders: WorkerFolders
  readonly openBaseModel: OpenBaseModel
  readonly runtime: Runtime
  readonly logger: Logger
  readonly clock: Clock
  /** Threads inside one operator; default by the model's size. */
  readonly threads?: number
}

/** Whether a module is trained, by its path. */
type ModuleTest = (modulePath: string) => boolean

/** What the orders of a session work on. */
interface Held {
  readonly client: SessionClient
  readonly spec: TrainingSessionSpec
  readonly prepared: PreparedModel
  readonly limits: RowLimits
  readonly open: (state: LearnerState) => Promise<LiveSession>
  live: LiveSession
}

/**
 * Holds a session until the server closes it.
 *
 * @throws {FencedError} when another attempt holds the session; what restoring the state throws
 */
export async function runSession(options: RunSessionOptions): Promise<void> {
  const { identity, logger } = options
  const client = createSessionClient(identity)
  const spec = await client.getSession()
  const heartbeat = startHeartbeat({
    identity,
    leaseSeconds: spec.lease_seconds,
    parentPid: process.ppid,
    // a process of the server itself is given its base models
    isServerParent: process.send !== undefined && options.folders.base_model !== null,
  })
  try {
    const held = await openSession(options, { client, spec, note: heartbeat.noteProgress })
    logger.debug({ session_id: spec.id, attempt: spec.attempt }, 'session.opened')
    try {
      await carryOut(held, logger)
    } finally {
      await held.live.learner.release()
    }
  } finally {
    await heartbeat.stop()
  }
}

async function openSession(
  { openBaseModel, folders, runtime, threads: setting }: RunSessionOptions,
  {
    client,
    spec,
    note,
  }: { readonly client: SessionClient; readonly spec: TrainingSessionSpec; readonly note: () => void },
): Promise<Held> {
  const { prepared } = await openBaseModel({
    sourcePath: await placeOfBaseModel(folders, { client, onPart: note }),
    preparedDir: folders.prepared,
  })
  const threads = threadsFor(parameterCount(prepared.config), setting ?? null)
  const isTrained: ModuleTest = (path) => (path.includes('.mlp.') ? spec.trains_mlp : spec.trains_attention)
  const counted = countRuns(runtime, note)
  const open = async (state: LearnerState): Promise<LiveSession> =>
    createLiveSession(
      await openOnnxLearner({
        prepared,
        runtime: counted,
        state,
        isTrained,
        precision: 'f32',
        rows: null,
        ...(threads === null ? {} : { threads }),
      }),
    )
  const state =
    spec.state.length === 0
      ? newSessionState(prepared, spec.lora)
      : decodeSessionState(prepared, await fetchFiles(client, spec.state), `training session ${spec.id}`)
  const { vocabularySize, contextLength } = prepared.config
  const limits = { vocabularySize, contextLength: Math.min(contextLength, spec.max_context_length ?? contextLength) }
  return { client, spec, prepared, limits, open, live: await open(state) }
}

async function carryOut(held: Held, logger: Logger): Promise<void> {
  let report: SessionReport = { order: null }
  let output: Uint8Array | undefined
  for (;;) {
    const { order, bytes } = await held.client.turn(report, output)
    if (order.type === 'close') return
    report = { order: null }
    output = undefined
    if (order.type === 'wait') continue
    const result = await tryToObey(held, order, { bytes, logger })
    output = result.output
    report = { order: order.order, ...result.report }
    if (order.type !== 'forward_backward' || order.update === undefined) continue
    const update = { type: 'optim_step', order: order.order, settings: order.update } as const
    report.update = (await tryToObey(held, update, { bytes: NO_BYTES, logger })).report
  }
}

const NO_BYTES = new Uint8Array(0)

/** @throws what no order can do anything about */
async function tryToObey(
  held: Held,
  order: Work,
  { bytes, logger }: { readonly bytes: Uint8Array; readonly logger: Logger },
): Promise<Obeyed> {
  try {
    return await obey(held, order, bytes)
  } catch (error) {
    if (!(error instanceof AppError) || error.category === 'conflict' || error.category === 'unavailable') throw error
    logger.warn({ session_id: held.spec.id, code: error.code, reason: error.message }, 'session.order_failed')
    const isUserError = error instanceof InvalidRequestError || USER_CODES.has(error.code)
    return {
      report: {
        error: { code: error.code, message: fullMessage(error).slice(0, MAX_MESSAGE), is_user_error: isUserError },
      },
    }
  }
}

/** Errors of training that another request would not have. */
const USER_CODES: ReadonlySet<string> = new Set([
  'non_finite_loss',
  'non_finite_gradient',
  'no_gradients',
  'out_of_memory',
])

type Work = Exclude<SessionOrder, { readonly type: 'wait' | 'close' }>

interface Obeyed {
  readonly report: RequestReport
  readonly output?: Uint8Array
}

async function obey(held: Held, order: Work, bytes: Uint8Array): Promise<Obeyed> {
  const { client, spec, prepared, live } = held
  switch (order.type) {
    case 'forward_backward': {
      const request = checkLossRequest(readLossRequest(bytes), held.limits)
      return { report: {}, output: encodeLossOutput(await live.forwardBackward(request)) }
    }
    case 'optim_step': {
      const { learning_rate, eps, weight_decay, grad_clip_norm, beta1, beta2 } = order.settings
      const { gradientNorm } = await live.optimStep({
        learningRate: learning_rate,
        beta1,
        beta2,
        epsilon: eps,
        weightDecay: weight_decay,
        maxGradientNorm: grad_clip_norm > 0 ? grad_clip_norm : Number.POSITIVE_INFINITY,
      })
      return { report: { metrics: { 'grad_norm:mean': gradientNorm } } }
    }
    case 'load': {
      const title = `weights loaded into training session ${spec.id}`
      const state = decodeSessionState(prepared, await fetchFiles(client, order.files), title)
      await live.learner.release()
      held.live = await held.open(state)
      return { report: {} }
    }
    case 'save': {
      const of = { baseModelName: spec.base_model.name, kind: OPTIMIZER_KIND }
      const files: SessionFile[] = []
      for (const [name, content] of await live.learner.export(order.parts, of)) {
        files.push(await client.putFile(name, content))
      }
      return { report: { files } }
    }
  }
}

async function fetchFiles(client: SessionClient, files: readonly SessionFile[]): Promise<Map<string, FileContent>> {
  const fetched = new Map<string, FileContent>()
  for (const file of files) fetched.set(file.name, await client.getFile(file))
  return fetched
}
