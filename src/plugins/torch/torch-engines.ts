/**
 * Gradients and scores by PyTorch: a Python process computes the decoder, our own graph the loss.
 *
 * A run is two questions: the log-probabilities of the rows, and, once the loss's slope by each of them is known, the gradients of the
 * adapter. Between them the process keeps its activations. In float32 on the processor it agrees with `onnx-engine.ts` within 1e-5.
 */
import { TrainingError } from '#base/errors/errors.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { dropoutNames } from '#model/architectures/train-kernels.js'
import { type AdapterForm, isAdapted, scaleOf } from '#model/weights/adapter-config.js'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph } from '#numerics/graph/graph.js'
import { reshape } from '#numerics/graph/ops/shape.js'
import type { Runtime, Session } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GradientEngine, GradientEngines } from '#training/trainer/gradient-engine.js'
import { dropoutSites } from '#training/trainer/masks/dropout.js'
import type { RowBatch } from '#training/trainer/row-batch.js'
import { openGraphSession } from '#training/trainer/row-session.js'
import { emitLoss, gradientName, type LossKind, readsEntropy } from '#training/trainer/train-graph.js'
import type { Message } from './frames.js'
import { type ModelMessageOptions, modelMessage } from './model-message.js'
import type { TorchProcess } from './torch-process.js'

// The graph of a loss without the decoder: log-probabilities in; the loss and its gradient by each of them out.
//
// For engines that compute log-probabilities outside ONNX Runtime (the plugin `torch`). They use the
// same formulas as the train graph, so every loss and option that it has works there too.

/**
 * Builds the graph.
 *
 * Inputs: `logp` [Q, C], N in all, with an entropy bonus `entropy` [Q, C], and what the loss takes (see `buildTrainGraph`). Outputs: `loss` [],
 * `logp_gradient` [N], with an entropy bonus `entropy_gradient` [N], for RL `ratio` [N].
 */
export function buildLossGraph(loss: LossKind): Graph {
  const g = new GraphBuilder('loss')
  // in the chunks of the head, whose sizes the inputs of losses are products of
  const perToken = (name: string) => reshape(g, g.input(name, 'float32', ['Q', 'C']), [-1])
  const logp = perToken('logp')
  const isEntropyRead = readsEntropy(loss)
  // a loss that does not read it never asks for it
  const entropy = isEntropyRead ? perToken('entropy') : logp
  const total = emitLoss(g, { logp, entropy }, loss)
  const read = isEntropyRead ? [logp, entropy] : [logp]
  const [slope, entropySlope] = backward(g, [{ value: total.loss, gradient: g.scalar(1) }], read)
  if (slope === undefined) throw new Error('the loss does not depend on the log-probabilities')
  g.output(total.loss, 'loss')
  g.output(slope, 'logp_gradient')
  if (entropySlope !== undefined) g.output(entropySlope, 'entropy_gradient')
  if (total.ratio !== null) g.output(total.ratio, 'ratio')
  return g.build()
}

export interface TorchEnginesOptions extends ModelMessageOptions {
  readonly prepared: PreparedModel
  /** Form of the adapter that is trained. */
  readonly adapter: AdapterForm
  /** Share of its inputs that gradients leave out; absent: none. */
  readonly dropout?: number | undefined
  /** Computes the losses. */
  readonly runtime: Runtime
  /** Hears of every answer of the process: a sign of life. */
  readonly onAnswer?: () => void
}

/** The base model that each process has open, so that the next job of the same one need not load it again. */
const opened = new WeakMap<TorchProcess, string>()

/**
 * Opens a base model in the process, one at a time.
 *
 * @throws {WeightsError} `unsupported_model`; {TrainingError} `out_of_memory`; {RuntimeError} `torch_failed`
 */
export async function openTorchEngines(process: TorchProcess, options: TorchEnginesOptions): Promise<GradientEngines> {
  const { prepared, runtime, onAnswer } = options
  const message = await modelMessage(prepared, options)
  const key = JSON.stringify(message.header)
  const ask = async (question: Message): Promise<Message> => {
    const answer = await process.ask(question)
    onAnswer?.()
    return answer
  }
  if (opened.get(process) !== key) {
    opened.delete(process)
    await ask(message)
    opened.set(process, key)
  }
  const scalesOf = (form: AdapterForm): Scales => {
    const paths = adapterModules(prepared.config).map(({ path }) => path)
    return Object.fromEntries(paths.filter((path) => isAdapted(form, path)).map((path) => [path, scaleOf(form, path)]))
  }
  return {
    train: async (loss, { isRecomputed }) => {
      const session = await openGraphSession(buildLossGraph(loss), {
        runtime,
        directory: prepared.directory,
        threads: 1,
      })
      return trainEngine(ask, session, {
        scales: scalesOf(options.adapter),
        dropout: dropoutOf(prepared, options),
        isRecomputed,
      })
    },
    score: async (adapter) => scoreEngine(ask, scalesOf(adapter)),
  }
}

/** Inputs of rows that say which tokens could be drawn. */
const KEPT_FEEDS: ReadonlySet<string> = new Set(['kept_ids', 'is_limited'])
/** Outputs of the loss graph that the process goes on from. */
const SLOPES: ReadonlySet<string> = new Set(['logp_gradient', 'entropy_gradient'])

/** What the product of each adapted module's B and A is multiplied with, by path. */
type Scales = Readonly<Record<string, number>>
/** The share, and by path the names of the random numbers of the masks. */
interface TorchDropout {
  readonly share: number
  readonly sites: Readonly<Record<string, readonly [string, string]>>
}

function dropoutOf(prepared: PreparedModel, { adapter, dropout: share }: TorchEnginesOptions): TorchDropout | null {
  if (share === undefined) return null
  const sites = dropoutSites(prepared.config, adapter).flatMap(({ layer, joined, paths }) => {
    const { rows, columns } = dropoutNames(layer, joined)
    return paths.map((path) => [path, [rows, columns] as const] as const)
  })
  return { share, sites: Object.fromEntries(sites) }
}

type Ask = (question: Message) => Promise<Message>
type Tensors = Readonly<Record<string, HostTensor>>

function trainEngine(
  ask: Ask,
  session: Session,
  options: { readonly scales: Scales; readonly dropout: TorchDropout | null; readonly isRecomputed: boolean },
): GradientEngine {
  const { scales, dropout } = options
  let { isRecomputed } = options
  const readsEntropy = session.inputNames.includes('entropy')
  const run: GradientEngine['run'] = async (batch, adapter, lossInputs = {}, fetches) => {
    const names = Object.keys(adapter)
    const wanted = fetches ?? ['loss', 'logp', 'entropy', ...session.outputNames, ...names.map(gradientName)]
    const wantsGradient = wanted.some((name) => names.some((tensor) => gradientName(tensor) === name))
    const scores = await ask(
      forward({ batch, adapter, scales, dropout, masks: lossInputs, isRecomputed, wantsGradient, readsEntropy }),
    )
    const { shape } = tensorOf(batch.feeds, 'labels')
    const inChunks = (name: string): HostTensor => float32Tensor(float32Of(scores.arrays, name).data, shape)
    const feeds: Tensors = { ...lossInputs, logp: inChunks('logp'), entropy: inChunks('entropy') }
    const known = session.inputNames.map((name): [string, HostTensor] => [name, tensorOf(feeds, name)])
    const losses = await session.run(Object.fromEntries(known))
    const outputs: Record<string, HostTensor> = { ...scores.arrays, ...losses }
    if (wantsGradient) {
      const slopes = Object.entries(losses).filter(([name]) => SLOPES.has(name))
      const gradients = await ask({ header: { type: 'backward' }, arrays: Object.fromEntries(slopes) })
      for (const [name, tensor] of Object.entries(gradients.arrays)) outputs[gradientName(name)] = tensor
    }
    const returned = new Set(wanted.filter((name) => !SLOPES.has(name)))
    return Object.fromEntries(Object.entries(outputs).filter(([name]) => returned.has(name)))
  }
  return {
    run: async (...asked) => {
      try {
        return await run(...asked)
      } catch (error) {
        // what a card can hold is known when it could not: from now on layers are computed again
        if (isRecomputed || !(error instanceof TrainingError && error.code === 'out_of_memory')) throw error
        isRecomputed = true
        return run(...asked)
      }
    },
    release: () => session.release(),
  }
}

function scoreEngine(ask: Ask, scales: Scales): GradientEngine {
  return {
    run: async (batch, adapter, _lossInputs, fetches = ['logp', 'entropy']) => {
      const { arrays } = await ask(
        forward({ batch, adapter, scales, isRecomputed: false, wantsGradient: false, readsEntropy: false }),
      )
      return Object.fromEntries(fetches.map((name) => [name, tensorOf(arrays, name)]))
    },
    // the base model stays open for the next engine
    release: async () => undefined,
  }
}

function forward(run: {
  readonly batch: RowBatch
  readonly adapter: Tensors
  readonly scales: Scales
  readonly dropout?: TorchDropout | null
  /** The dropout's among them. */
  readonly masks?: Tensors
  readonly isRecomputed: boolean
  readonly wantsGradient: boolean
  readonly readsEntropy: boolean
}): Message {
  const { feeds, length, segments } = run.batch
  const shape = [segments.groupIds.length / length, length]
  const ids = (data: Int32Array): HostTensor => ({ dtype: 'int32', shape, data })
  return {
    header: {
      type: 'forward',
      scales: run.scales,
      dropout: run.dropout ?? null,
      wants_gradient: run.wantsGradient,
      reads_entropy: run.readsEntropy,
      is_recomputed: run.isRecomputed,
    },
    arrays: {
      tokens: tensorOf(feeds, 'tokens'),
      positions: tensorOf(feeds, 'positions'),
      label_positions: tensorOf(feeds, 'label_positions'),
      labels: tensorOf(feeds, 'labels'),
      inverse_temperature: tensorOf(feeds, 'inverse_temperature'),
      ...Object.fromEntries(Object.entries(feeds).filter(([name]) => KEPT_FEEDS.has(name))),
      groups: ids(segments.groupIds),
      parents: ids(segments.parentIds),
      ...run.adapter,
      ...(run.dropout == null
        ? {}
        : Object.fromEntries(Object.entries(run.masks ?? {}).filter(([name]) => name.startsWith('dropout.')))),
    },
  }
}

function tensorOf(tensors: Tensors, name: string): HostTensor {
  const tensor = tensors[name]
  if (tensor === undefined) throw new Error(`no tensor is called "${name}"`)
  return tensor
}

function float32Of(tensors: Tensors, name: string): HostTensor<'float32'> {
  const tensor = tensorOf(tensors, name)
  if (tensor.dtype !== 'float32') throw new Error(`"${name}" is ${tensor.dtype}, expected float32`)
  return tensor
}
