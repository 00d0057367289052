/**
 * A training session: a loop of one's own, request by request. The server keeps adapter, moments and gradients in one of its training
 * workers; here are the rows, the losses and the order.
 *
 * Calls take effect in the order they were made, and one may be made before the one before it was awaited. The wire numbers requests:
 * a number whose fate is unknown must not be used again, so a connection that stays broken ends the session.
 */
import { AppError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import type { WorkResult } from '#sdk/client/training-loops.js'
import type { Message } from '#sdk/rl/trajectory.js'
import {
  type LossResult,
  type OptimSettings,
  type SamplingOptions,
  type SavedCheckpoint,
  type SessionModel,
  type SessionSample,
  toAdamParams,
} from './session-options.js'
import {
  type LossConfig,
  type LossFunction,
  type LossName,
  planLoss,
  type SampledRow,
  type SessionRow,
  toWireRows,
  type WeightedRow,
  withGradients,
  withoutPrompts,
} from './session-rows.js'
import {
  decodeLossOutput,
  decodeSequences,
  encodeLossRequest,
  type WireLossOutput,
  type WireRow,
} from './training-loop-messages.js'

/** Of one request: what is beyond goes in another, which the server takes as more of the same gradient. */
const MOST_ROWS = 1024
const MOST_TOKENS = 200_000
/** The server keeps weights without a name for a day. */
const SAMPLER_MS = 12 * 3_600_000

/** What a session is made of; `open-session.ts` makes it. */
export interface SessionParts {
  readonly client: Client
  readonly model: SessionModel
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
  readonly clientSessionId: string
  readonly id: string
}

/**
 * @example
 * const session = await model.session()
 * const update = session.forwardBackward([{ prompt: [1], tokens: [20, 30] }], 'cross_entropy')
 * const [{ loss }] = await Promise.all([update, session.optimStep({ learningRate: 1e-3 })])
 * await session.save('first')
 * await session.close()
 */
export class TrainingSession {
  /** Of the training run on the server, which lists it under `GET /api/v1/training_runs`. */
  readonly id: string
  readonly #parts: SessionParts
  /** Ends when all that was sent so far was taken. */
  #turns: Promise<unknown> = Promise.resolve()
  readonly #unfinished = new Set<Promise<unknown>>()
  #lastSeq = 0
  #sampleCount = 0
  /** What samples come from; null: the weights have changed since. */
  #sampler: { readonly id: Promise<string>; readonly madeAtMs: number } | null = null
  /** Why nothing can be sent any more. */
  #end: AppError | null = null

  constructor(parts: SessionParts) {
    this.id = parts.id
    this.#parts = parts
  }

  /**
   * Computes a loss of rows and adds its gradient to those since the last `optimStep`. Losses are sums: divide weights or advantages for
   * means. More than 1,024 rows or 200,000 tokens are sent in parts, and a part that is refused does not take back those before it.
   *
   * @param rows what the loss takes, see `WeightedRow` and `SampledRow`
   * @throws {AppError} `missing_input`, `invalid_input` and others naming the row; `session_request_failed` with the server's reason
   */
  forwardBackward(rows: readonly WeightedRow[], loss: 'cross_entropy'): Promise<LossResult>
  forwardBackward(
    rows: readonly SampledRow[],
    loss: Exclude<LossName, 'cross_entropy'>,
    config?: LossConfig,
  ): Promise<LossResult>
  /**
   * The same with a loss of one's own: the rows are scored, the function says the loss and its derivative by each log-probability, and these
   * are propagated. Costs one more forward pass. The function must not wait for this session: calls after this one wait for it.
   */
  forwardBackward<Row extends SessionRow>(rows: readonly Row[], loss: LossFunction<Row>): Promise<LossResult>
  forwardBackward(
    rows: readonly SessionRow[],
    loss: LossName | LossFunction<never>,
    config?: LossConfig,
  ): Promise<LossResult> {
    return this.#track(async () => {
      const plan = planLoss(loss, config)
      if (plan.kind === 'served') return await this.#compute(rows, { ...plan, isForwardOnly: false })
      const scored = toWireRows(rows.map(bare), 'cross_entropy')
      const { value, logprobs, ids } = await this.#inTurn(async () => {
        const scores = await this.#results(await this.#sendRows(scored, SCORE))
        const logprobs = withoutPrompts(rows, scores.logprobs)
        const value = await plan.loss(logprobs, rows as readonly never[])
        const wire = toWireRows(withGradients(rows, value), 'cross_entropy')
        return { value, logprobs, ids: await this.#sendRows(wire, { ...SCORE, isForwardOnly: false }) }
      })
      await this.#results(ids)
      return { loss: value.loss, logprobs }
    })
  }

  /**
   * Applies the gradients with AdamW and drops them.
   *
   * @returns the gradient's norm before clipping
   * @throws {AppError} `session_request_failed` when there are none
   */
  optimStep(settings: OptimSettings): Promise<{ readonly gradientNorm: number }> {
    this.#sampler = null
    return this.#track(async () => {
      const json = { model_id: this.id, adam_params: toAdamParams(settings) }
      const result = await this.#run((seq) => this.#wire.optimStep({ ...json, seq_id: seq }, this.#call))
      const metrics = 'json' in result ? (result.json['metrics'] as Readonly<Record<string, number>>) : {}
      return { gradientNorm: metrics['grad_norm:mean'] ?? Number.NaN }
    })
  }

  /** Answers of the weights as they are to a prompt. @param prompt token ids [P], at least one; `encode` makes them */
  sample(prompt: readonly number[], options: SamplingOptions = {}): Promise<readonly SessionSample[]> {
    const sampler = this.#currentSampler()
    const { n = 1, maxTokens, temperature, topP, topK, seed, stop } = options
    return this.#track(async () => {
      const samplingSessionId = await sampler
      const result = await this.#wire.sample(
        {
          sampling_session_id: samplingSessionId,
          seq_id: ++this.#sampleCount,
          num_samples: n,
          prompt: { chunks: [{ type: 'encoded_text', tokens: [...prompt] }] },
          sampling_params: {
            ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
            ...(temperature === undefined ? {} : { temperature }),
            ...(topP === undefined ? {} : { top_p: topP }),
            ...(topK === undefined ? {} : { top_k: topK }),
            ...(seed === undefined ? {} : { seed }),
            ...(stop === undefined ? {} : { stop: [...stop] as string[] | number[] }),
          },
        },
        this.#call,
      )
      return decodeSequences(bytesOf(result)).map(({ isStopped, tokens, logprobs }) => ({
        tokens,
        logprobs,
        stopReason: isStopped ? 'stop' : 'length',
      }))
    })
  }

  /** Log-probability of each row's tokens under the weights as they are, by the trainer: one array [N] per row, nats. */
  logprobs(rows: readonly SessionRow[]): Promise<readonly Float32Array[]> {
    return this.#track(async () => (await this.#compute(rows.map(bare), SCORE)).logprobs)
  }

  /**
   * Saves the weights as the model's next checkpoint, which chats, and is exported and downloaded as any other.
   *
   * @param name unique in the session: letters, digits and `_.@=+ -`; default a number
   */
  save(name?: string): Promise<SavedCheckpoint> {
    return this.#track(async () => {
      const result = await this.#run((seq) =>
        this.#wire.saveForSampler({ model_id: this.id, path: name ?? defaultName(seq), seq_id: seq }, this.#call),
      )
      const { path, step } = ('json' in result ? result.json : {}) as { readonly path: string; readonly step: number }
      this.#parts.model.onSaved(step)
      return { path, step, inferenceName: this.#parts.model.inferenceName(step) }
    })
  }

  /** Saves weights and optimizer. @returns a path for `from` of another session, which then goes on with the same bits */
  saveState(name?: string): Promise<string> {
    return this.#track(async () => {
      const result = await this.#run((seq) =>
        this.#wire.saveWeights({ model_id: this.id, path: name ?? defaultName(seq), seq_id: seq }, this.#call),
      )
      return 'json' in result ? String(result.json['path']) : ''
    })
  }

  /** Token ids of a text as it is, or of a conversation by the model's template, an answer about to begin. */
  async encode(prompt: string | readonly Message[]): Promise<readonly number[]> {
    const model = this.#parts.model.baseModel
    const said = typeof prompt === 'string' ? { prompt } : { messages: [...prompt], add_generation_prompt: true }
    return (await this.#parts.client.text.tokenize({ model, ...said }, this.#call)).tokens
  }

  /** The text of token ids. */
  async decode(tokens: readonly number[]): Promise<string> {
    const model = this.#parts.model.baseModel
    return (await this.#parts.client.text.detokenize({ model, tokens: [...tokens] }, this.#call)).prompt
  }

  /** Waits for what was asked for, and gives the worker back. What was not saved is lost to this program. */
  async close(): Promise<void> {
    if (this.#end?.code === 'session_closed') return
    while (this.#unfinished.size > 0) await Promise.allSettled(this.#unfinished)
    this.#end = new AppError('invalid_request', 'session_closed', 'the training session is closed', {
      hint: 'open another: model.session()',
    })
    await this.#wire.finish(this.#parts.clientSessionId)
  }

  get #wire(): Client['loops'] {
    return this.#parts.client.loops
  }

  get #call(): { readonly signal: AbortSignal | undefined } {
    return { signal: this.#parts.signal }
  }

  /** The sampler of the weights as they are at this place of the order. */
  #currentSampler(): Promise<string> {
    const nowMs = this.#parts.clock.monotonicMs()
    if (this.#sampler !== null && nowMs - this.#sampler.madeAtMs < SAMPLER_MS) return this.#sampler.id
    const id = this.#track(async () => {
      const result = await this.#run((seq) =>
        this.#wire.saveForSampler({ model_id: this.id, sampling_session_seq_id: seq, seq_id: seq }, this.#call),
      )
      return 'json' in result ? String(result.json['sampling_session_id']) : ''
    })
    const sampler = { id, madeAtMs: nowMs }
    this.#sampler = sampler
    // the next sample tries again
    id.catch(() => {
      if (this.#sampler === sampler) this.#sampler = null
    })
    return id
  }

  async #compute(rows: readonly SessionRow[], manner: Manner): Promise<LossResult> {
    const wire = toWireRows(rows, manner.loss)
    const ids = await this.#inTurn(() => this.#sendRows(wire, manner))
    const { loss, logprobs } = await this.#results(ids)
    return { loss, logprobs: withoutPrompts(rows, logprobs) }
  }

  /** In a turn. @returns ids of the requests that the rows went in */
  async #sendRows(rows: readonly WireRow[], manner: Manner): Promise<readonly string[]> {
    const ids: string[] = []
    for (const part of partsOf(rows)) {
      const id = await this.#send((seq) =>
        this.#wire.forwardBackward(
          encodeLossRequest({ ...manner, modelId: this.id, seqId: seq, rows: part }),
          this.#call,
        ),
      )
      ids.push(id)
    }
    return ids
  }

  async #results(ids: readonly string[]): Promise<WireLossOutput> {
    const outputs = await Promise.all(
      ids.map(async (id) => decodeLossOutput(bytesOf(await this.#wire.result(id, this.#call)))),
    )
    return {
      loss: outputs.reduce((sum, { loss }) => sum + loss, 0),
      logprobs: outputs.flatMap(({ logprobs }) => logprobs),
    }
  }

  /** Sends one request in its turn and waits for its result. */
  async #run(send: (seq: number) => Promise<{ readonly request_id: string }>): Promise<WorkResult> {
    const id = await this.#inTurn(() => this.#send(send))
    return await this.#wire.result(id, this.#call)
  }

  /** In a turn. A refused request has not used its number. */
  async #send(send: (seq: number) => Promise<{ readonly request_id: string }>): Promise<string> {
    if (this.#end !== null) throw this.#end
    const seq = this.#lastSeq + 1
    try {
      const { request_id: id } = await send(seq)
      this.#lastSeq = seq
      return id
    } catch (error) {
      const isRefused = error instanceof ApiError && (error.status < 500 || error.status === 503)
      if (!isRefused) {
        const why = error instanceof Error ? error.message : String(error)
        const message = `the training session ended with a request of which is not known whether the server took it: ${why}`
        this.#end = new AppError('unavailable', 'session_lost', message, {
          cause: error,
          hint: 'open another session from a state that was saved: model.session({ from: path })',
        })
      }
      throw error
    }
  }

  /** After all that was sent before, and before all that is sent later. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turns.then(work)
    this.#turns = settled(turn)
    return turn
  }

  /** Begins a call; `close` waits for it. Up to its first wait it runs at once, which is what puts calls in their order. */
  #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#end?.code === 'session_closed') return Promise.reject(this.#end)
    const result = work()
    const end = settled(result)
    this.#unfinished.add(end)
    void end.then(() => this.#unfinished.delete(end))
    return result
  }
}

interface Manner {
  readonly loss: string
  readonly config: Readonly<Record<string, number>>
  readonly isForwardOnly: boolean
}

const SCORE: Manner = { loss: 'cross_entropy', config: {}, isForwardOnly: true }

/** Without what only some losses take. */
function bare({ prompt, tokens }: SessionRow): SessionRow {
  return { prompt, tokens }
}

function partsOf(rows: readonly WireRow[]): WireRow[][] {
  const parts: WireRow[][] = []
  let tokens = Number.POSITIVE_INFINITY
  for (const row of rows) {
    const part = parts.at(-1)
    if (part === undefined || part.length >= MOST_ROWS || tokens + row.tokens.length > MOST_TOKENS) {
      parts.push([row])
      tokens = row.tokens.length
    } else {
      part.push(row)
      tokens += row.tokens.length
    }
  }
  return parts
}

function defaultName(seq: number): string {
  return String(seq).padStart(6, '0')
}

function bytesOf(result: WorkResult): Uint8Array {
  if (result.bytes !== undefined) return result.bytes
  throw new AppError('internal', 'unexpected_response', 'the server answered rows of training with JSON')
}

async function settled(work: Promise<unknown>): Promise<void> {
  await work.then(
    () => undefined,
    () => undefined,
  )
}
