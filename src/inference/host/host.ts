/**
 * The engine host without its process: commands in, events out.
 *
 * Joins text and inference: renders, tokenizes, generates, decodes. One base model; every request ends with exactly one
 * `finished` or `failed`, whatever happens.
 */

import { type ErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import { AppError, toFullDiskError } from '#base/errors/errors.js'
import { nudgeThreadPool } from '#base/processes/nudge-thread-pool.js'
import { assertNever } from '#base/util/assert-never.js'
import type { Clock } from '#base/util/clock.js'
import { answerFormatOf } from '#formats/answers/answer-format.js'
import type { Engine } from '#inference/engine/engine.js'
import type { GenerationListener } from '#inference/engine/generation.js'
import type { IdleSteps } from '#inference/engine/scheduling/kept-memory.js'
import { adapterModules, parameterCount } from '#model/architectures/decoder-config.js'
import { markOfPrompt } from '#model/text/sampled-turns.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import type { AdapterModule } from '#model/weights/adapter.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { ThreadsChange } from '../engine/scheduling/core-sharing.js'
import type { GrammarLease } from '../grammar/grammar-cache.js'
import type { RoutedEngine } from '../remote/routed-engine.js'
import { type AnswerGrammars, createGrammars, leaseFor, releasing } from './answer-grammars.js'
import { ChoiceText } from './choice-text.js'
import type { LocalEngine, LocalEngineParts } from './local-engine.js'
import { PromptText } from './prompt-text.js'
import type {
  EngineNode,
  FailedEvent,
  GenerateCommand,
  HostCommand,
  HostEvent,
  LoadCommand,
  LoadedEvent,
  TextCommand,
} from './protocol.js'
import { readConfig } from './read-config.js'
import { type HostRequest, maxPromptTokens, toGenerationRequest } from './request.js'
import { createTextDesk, type TextDesk } from './text-desk.js'
import type { PreparedPrompt } from './text-work.js'

// Why a model could not be loaded, as the host's message carries it.

/** What a load writes are prepared weights, so a disk without room had none for them. */
export function toLoadError(error: unknown): ErrorMessage {
  const reason = error instanceof Error ? error.message : String(error)
  const full = toFullDiskError(error, 'its prepared weights')
  if (full === null) return toErrorMessage(error, { message: `model could not be loaded: ${reason}` })
  const hint = 'free some space on the disk of the data directory, then send the request again; no restart is needed'
  return { ...toErrorMessage(full), hint }
}

export interface HostOptions {
  readonly runtime: Runtime
  readonly clock: Clock
  readonly send: (event: HostEvent) => void
  /** Ends the process. */
  readonly exit: () => void
  /** Memory of this process, bytes. */
  readonly residentBytes?: () => number
  readonly idleSteps?: IdleSteps
}

export interface Host {
  handle(command: HostCommand): Promise<void>
}

/** A process that has grown by less since its model was loaded has little to give back. */
const WORN_RATIO = 1.15
const WORN_BYTES = 16e6
/** A process that was smaller when loaded is loaded anew within a second; kept prompts and adapters of a larger one are dear. */
const MOST_RENEWED_BYTES = 256e6
/** How long a process whose device was lost waits for its last words to go. */
const LOST_DEVICE_MS = 2000

interface Loaded {
  readonly engine: Engine
  /** The engine, if nodes compute. */
  readonly routed: RoutedEngine | null
  readonly textModel: TextModel
  /** What can be adapted. */
  readonly modules: readonly AdapterModule[]
  readonly texts: TextDesk
  readonly grammars: AnswerGrammars
}

/** Creates a host with no model; `load` comes first. */
export function createHost(options: HostOptions): Host {
  return new EngineHost(options)
}

class EngineHost implements Host {
  readonly #options: HostOptions
  readonly #residentBytes: () => number
  #loaded: Loaded | null = null
  #isShared = false
  #nodes: readonly EngineNode[] = []
  /** Requests whose prompt is being rendered or whose grammar is being compiled. */
  readonly #preparing = new Set<string>()

  constructor(options: HostOptions) {
    this.#options = options
    this.#residentBytes = options.residentBytes ?? process.memoryUsage.rss
  }

  async handle(command: HostCommand): Promise<void> {
    switch (command.type) {
      case 'load':
        return await this.#load(command)
      case 'generate':
        return await this.#generate(command)
      case 'text':
        return await this.#workOnText(command)
      case 'abort':
        this.#preparing.delete(command.id)
        return this.#loaded?.engine.abort(command.id)
      case 'forget_adapter':
        return this.#loaded?.engine.forgetAdapter(command.digest)
      case 'share_cores':
        this.#isShared = command.isShared
        return this.#loaded?.engine.shareCores(this.#isShared)
      case 'engine_nodes':
        this.#nodes = command.nodes
        return this.#loaded?.routed?.setNodes(this.#nodes)
      case 'ping':
        // somebody waits, perhaps for a file
        nudgeThreadPool()
        return this.#options.send({
          type: 'pong',
          id: command.id,
          runningSequences: this.#loaded?.engine.runningSequences ?? 0,
          waitingRequests: this.#loaded?.engine.waitingRequests ?? 0,
          kvCacheUsage: this.#loaded?.engine.kvCacheUsage ?? 0,
          preemptions: this.#loaded?.engine.preemptions ?? 0,
        })
      case 'shutdown':
        return await this.#shutdown(command.deadlineMs)
      default:
        return assertNever(command)
    }
  }

  async #load(command: LoadCommand): Promise<void> {
    const startedMs = this.#options.clock.monotonicMs()
    let loadedBytes = Number.POSITIVE_INFINITY
    try {
      const config = await readConfig(command.sourcePath)
      const textModel = await loadTextModel(command.sourcePath)
      const { engine, facts, routed } = await this.#openEngine(command, { config, textModel }, () =>
        this.#tellIfWorn(loadedBytes),
      )
      this.#loaded = {
        engine,
        routed,
        textModel,
        modules: adapterModules(config),
        texts: createTextDesk(textModel, { sourcePath: command.sourcePath }),
        grammars: createGrammars(textModel, config.vocabularySize, this.#options.clock),
      }
      engine.shareCores(this.#isShared)
      loadedBytes = this.#residentBytes()
      routed?.setNodes(this.#nodes)
      this.#options.send({
        type: 'loaded',
        baseModel: command.baseModel,
        family: config.family,
        parameterCount: parameterCount(config),
        contextLength: engine.contextLength,
        vocabularySize: config.vocabularySize,
        ...facts,
        loadMs: Math.round(this.#options.clock.monotonicMs() - startedMs),
        answerFormat: answerFormatOf(textModel.chatTemplate?.source ?? ''),
        templateNames: [...(textModel.chatTemplate?.facts.outsideNames ?? [])],
        tokenizer: tokenizerFacts(textModel),
      })
    } catch (error) {
      this.#options.send({ type: 'failed', id: null, error: toLoadError(error) })
    }
  }

  /** An engine of this process, or one whose tokens nodes compute; what the other one is made of is not loaded. */
  async #openEngine(
    command: LoadCommand,
    { config, textModel }: Pick<LocalEngineParts, 'config' | 'textModel'>,
    onRested: () => void,
  ): Promise<Pick<Loaded, 'engine' | 'routed'> & Pick<LocalEngine, 'facts'>> {
    const { runtime, idleSteps } = this.#options
    const idle = idleSteps === undefined ? {} : { idleSteps }
    const parts = {
      config,
      textModel,
      runtime,
      onThreadsChange: (change: ThreadsChange) => this.#tellThreads(change),
      ...idle,
    }
    const { engines = 'local' } = command
    const openLocal = async (more: Pick<LocalEngineParts, 'onRested'> = {}): Promise<LocalEngine> => {
      const { openLocalEngine } = await import('./local-engine.js')
      return await openLocalEngine(command, { ...parts, ...more })
    }
    if (engines === 'local') return { ...(await openLocal({ onRested })), routed: null }
    const { createRoutedEngine } = await import('../remote/routed-engine.js')
    const routed = createRoutedEngine({
      baseModel: command.baseModel,
      contextLength: Math.min(command.maxContextLength ?? config.contextLength, config.contextLength),
      vocabularySize: config.vocabularySize,
      eosTokenIds: textModel.eosTokenIds,
      openLocal: engines === 'auto' ? async () => (await openLocal()).engine : null,
    })
    return { engine: routed, routed, facts: { precision: null } }
  }

  #tellThreads({ error, ...change }: ThreadsChange): void {
    const told = error === null ? null : toErrorMessage(error, { message: reasonOf(error) })
    this.#options.send({ type: 'threads', id: null, ...change, error: told })
  }

  async #generate(command: GenerateCommand): Promise<void> {
    let lease: GrammarLease | null = null
    this.#preparing.add(command.id)
    try {
      const { engine, textModel, modules, texts, grammars } = this.#loadedModel()
      const { contextLength } = engine
      const prepared = await texts.prepare(command, maxPromptTokens(command, contextLength))
      const isWanted = (): boolean => this.#preparing.has(command.id)
      const maxTokens = Math.min(command.sampling.maxTokens ?? contextLength, contextLength)
      lease = await leaseFor({ ...command, maxTokens }, grammars, isWanted)
      // one that was aborted meanwhile never reaches the engine
      if (!this.#preparing.has(command.id)) {
        throw new AppError('cancelled', 'cancelled', 'the request was aborted before it started')
      }
      const createMask = lease?.createMask ?? null
      const request = toGenerationRequest(command, prepared, { textModel, contextLength, modules, createMask })
      engine.submit(
        request,
        releasing(
          this.#endingWithDevice(
            createListener(command, {
              textModel,
              send: this.#options.send,
              clock: this.#options.clock,
              request,
              prepared,
              unheld: lease?.unheld ?? [],
            }),
          ),
          lease,
        ),
      )
    } catch (error) {
      lease?.release()
      this.#options.send(toFailedEvent(command.id, error))
    } finally {
      this.#preparing.delete(command.id)
    }
  }

  /** ONNX Runtime keeps what its largest step took, and freed blocks lie between those in use: only a new process is without both. */
  #tellIfWorn(loadedBytes: number): void {
    const now = this.#residentBytes()
    const isWorth = now > WORN_RATIO * loadedBytes && now - loadedBytes > WORN_BYTES
    if (this.#preparing.size === 0 && loadedBytes < MOST_RENEWED_BYTES && isWorth) {
      this.#options.send({ type: 'worn', id: null, residentBytes: now, loadedBytes })
    }
  }

  async #workOnText(command: TextCommand): Promise<void> {
    try {
      this.#options.send({ type: 'text', id: command.id, result: await this.#loadedModel().texts.run(command.task) })
    } catch (error) {
      this.#options.send(toFailedEvent(command.id, error))
    }
  }

  /** A device that was lost is lost for as long as this process lives: the server starts another one. */
  #endingWithDevice(listener: GenerationListener): GenerationListener {
    const onFailed = (error: AppError): void => {
      listener.onFailed(error)
      if (error.code === 'device_lost') void this.#shutdown(LOST_DEVICE_MS)
    }
    return { ...listener, onFailed }
  }

  #loadedModel(): Loaded {
    if (this.#loaded !== null) return this.#loaded
    throw new AppError('unavailable', 'model_loading', 'model is not loaded yet')
  }

  async #shutdown(deadlineMs: number): Promise<void> {
    const timer = setTimeout(this.#options.exit, deadlineMs)
    await this.#loaded?.engine.idle()
    clearTimeout(timer)
    this.#options.exit()
  }
}

function tokenizerFacts({ tokenizer, bosTokenId, eosTokenIds, chatTemplate }: TextModel): LoadedEvent['tokenizer'] {
  const spelling = (id: number | null | undefined): string | null => (id == null ? null : tokenizer.idToToken(id))
  return {
    bosToken: spelling(bosTokenId),
    eosToken: spelling(eosTokenIds[0]),
    chatTemplate: chatTemplate?.source ?? null,
  }
}

/** Turns what the engine says of one request into events. */
function createListener(
  command: GenerateCommand,
  context: {
    readonly textModel: TextModel
    readonly send: (event: HostEvent) => void
    readonly clock: Clock
    readonly request: HostRequest
    readonly prepared: PreparedPrompt
    readonly unheld: readonly string[]
  },
): GenerationListener {
  const { id, sampling } = command
  const { textModel, send, clock } = context
  const { promptTokenIds, isReasoningOpen } = context.request
  const { tokenizer } = textModel
  const texts = Array.from({ length: sampling.n }, () => new ChoiceText(tokenizer, sampling))
  const textOf = (choice: number): ChoiceText => {
    const text = texts[choice]
    if (text === undefined) throw new Error(`request has no choice ${choice}`)
    return text
  }
  const prompt = new PromptText(tokenizer, sampling)
  const atMs = (): number => Math.round(clock.monotonicMs() * 100) / 100
  const isPromptReported = (sampling.promptLogprobs ?? null) !== null
  const echo = command.echoesPrompt === true ? { promptText: promptTextOf(context, sampling) } : {}
  const left = context.unheld.length === 0 ? {} : { unheld: context.unheld }
  const isWhole = 'messages' in command && command.truncatePromptTokens === null
  const rendered = isWhole ? { rendered: markOfPrompt(context.prepared.text) } : {}
  return {
    onStarted: (cachedTokens) => {
      send({
        type: 'started',
        id,
        promptTokenIds,
        cachedTokens,
        isReasoningOpen,
        ...rendered,
        ...echo,
        ...left,
        atMs: atMs(),
      })
      if (isPromptReported) send({ type: 'prompt', id, positions: [prompt.first(promptTokenIds[0] ?? 0)] })
    },
    onPromptToken: (event) => send({ type: 'prompt', id, positions: [prompt.next(event)] }),
    onToken: (event) => {
      if (sampling.maxTokens === 0) {
        send({ type: 'delta', id, choice: event.choice, ...textOf(event.choice).end('length') })
        return false
      }
      const delta = textOf(event.choice).push(event)
      send({ type: 'delta', id, choice: event.choice, ...delta, atMs: atMs() })
      return delta.finishReason === null
    },
    onAborted: (choice) => send({ type: 'delta', id, choice, ...textOf(choice).end('abort') }),
    onFinished: () => send({ type: 'finished', id }),
    onFailed: (error) => send(toFailedEvent(id, error)),
  }
}

/** As it was written, unless there was no text or it was cut. */
function promptTextOf(
  {
    textModel,
    request,
    prepared,
  }: {
    readonly textModel: TextModel
    readonly request: HostRequest
    readonly prepared: PreparedPrompt
  },
  { skipSpecialTokens }: { readonly skipSpecialTokens: boolean },
): string {
  const isWhole = prepared.text !== '' && request.promptTokenIds.length === prepared.tokenIds.length
  return isWhole ? prepared.text : textModel.tokenizer.decode(request.promptTokenIds, { skipSpecialTokens })
}

function toFailedEvent(id: string, error: unknown): FailedEvent {
  return { type: 'failed', id, error: toErrorMessage(error, { message: 'engine failed unexpectedly' }) }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
