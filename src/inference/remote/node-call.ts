/**
 * One request on its way through engine nodes: nodes are tried one after the other until one gives the first token; from then on the
 * request stays with that node.
 *
 * An answer that one node began is never continued by another: their random numbers differ. The listener is told nothing twice.
 */
import type { AppError } from '#base/errors/errors.js'
import { AppError as AnyError } from '#base/errors/errors.js'
import type { GenerateChunk, GenerateWhole, WireChoice } from '#contract/processes/token-wire.js'
import type { GenerationListener, GenerationRequest, PromptTokenEvent } from '../engine/generation.js'
import { type AnswerLimits, answerLimits } from './answer-limits.js'
import type { EngineNode } from './engine-node.js'
import { type AnswerOptions, isCutShort, toPromptEvents, toTokenEvents } from './generate-answer.js'
import { toGenerateBody } from './generate-body.js'
import { isNodesOwn, nodeLost, noEngineNode, toNodeError, toStreamFailure } from './node-error.js'
import { type NodeFailure, type NodeRequest, sendToNode } from './node-request.js'

export interface NodeCallOptions {
  readonly contextLength: number
  readonly vocabularySize: number
  readonly eosTokenIds: ReadonlySet<number>
  readonly baseModel: string
  /** The next node to try, none of `tried`; null: there is no other. */
  readonly nextNode: (tried: ReadonlySet<string>) => EngineNode | null
  /** A node failed on its own account. */
  readonly onFault: (node: EngineNode) => void
  /** Last of all. */
  readonly onEnd: () => void
}

export class NodeCall {
  readonly request: GenerationRequest
  readonly #listener: GenerationListener
  readonly #options: NodeCallOptions
  /** Choices that have not ended. */
  readonly #open: Set<number>
  readonly #tried = new Set<string>()
  readonly #limits: AnswerLimits
  /** Tokens of each choice so far. */
  readonly #counts = new Map<number, number>()
  #node: EngineNode | null = null
  #sent: NodeRequest | null = null
  #isStarted = false
  #hasToken = false
  /** The node ended every choice so far itself, so that its answer comes to its end without us. */
  #endsByItself = true
  #promptPositions = 0
  #isOver = false

  constructor(request: GenerationRequest, listener: GenerationListener, options: NodeCallOptions) {
    this.request = request
    this.#listener = listener
    this.#options = options
    this.#limits = answerLimits(request, options.contextLength)
    this.#open = new Set(Array.from({ length: request.rules.n }, (_, i) => i))
  }

  /** Where it is; null: nowhere yet. */
  get node(): EngineNode | null {
    return this.#node
  }

  /** Whether its first token has come. */
  get isRunning(): boolean {
    return this.#hasToken
  }

  get openChoices(): number {
    return this.#open.size
  }

  /** Sends it to the next node. @param last why the one before did not do */
  start(last: AppError | null = null): void {
    if (this.#isOver) return
    const node = this.#options.nextNode(this.#tried)
    if (node === null) {
      this.fail(last ?? noEngineNode(this.#options.baseModel))
      return
    }
    this.#tried.add(node.id)
    this.#counts.clear()
    this.#node = node
    let body: string
    try {
      const contextLength = Math.min(this.#options.contextLength, node.contextLength)
      body = toGenerateBody(this.request, node.engine, { contextLength, eosTokenIds: [...this.#options.eosTokenIds] })
    } catch (error) {
      // a node with another engine may have what this one lacks
      if (!(error instanceof AnyError)) throw error
      this.start(error)
      return
    }
    const adapter = this.request.adapter?.digest ?? null
    this.#sent = sendToNode(
      node,
      { body, adapter, limits: this.#limits },
      {
        chunk: (chunk) => this.#receive(node, chunk),
        whole: (answer) => this.#receiveWhole(node, answer),
        ended: (failure) => this.#ended(node, failure),
      },
    )
  }

  /** The node is gone, as the server has it. */
  lose(reason: string): void {
    this.#sent?.lose(reason)
  }

  /** Its choices end where they are. */
  abort(): void {
    if (this.#isOver) return
    this.#cut()
    for (const choice of this.#open) this.#listener.onAborted(choice)
    this.#finish()
  }

  fail(error: AppError): void {
    if (this.#isOver) return
    this.#cut()
    this.#isOver = true
    this.#listener.onFailed(error)
    this.#options.onEnd()
  }

  #cut(): void {
    this.#sent?.cut()
    this.#sent = null
  }

  #finish(): void {
    this.#isOver = true
    this.#listener.onFinished()
    this.#options.onEnd()
  }

  #answerOptions({ engine }: EngineNode): AnswerOptions {
    const { rules, words } = this.request
    const isHeld = (words?.grammar ?? null) !== null
    return { engine, rules, isHeld, eosTokenIds: this.#options.eosTokenIds }
  }

  #receive(node: EngineNode, chunk: GenerateChunk): void {
    if (this.#isOver) return
    if (chunk.error !== undefined) {
      // whatever follows an error in its stream belongs to nobody
      this.#cut()
      this.#ended(node, toStreamFailure(chunk.error))
      return
    }
    this.#begin(chunk.cached_tokens ?? 0)
    for (const { position, token_id: tokenId, rank, logprob, top_logprobs: top } of chunk.prompt ?? []) {
      this.#tellPrompt({
        position,
        tokenId,
        rank,
        logprob,
        top: top.map((each) => ({ id: each.token_id, logprob: each.logprob })),
      })
    }
    this.#receiveChoices(node, chunk.choices ?? [])
  }

  #receiveWhole(node: EngineNode, answer: GenerateWhole): void {
    if (this.#isOver) return
    this.#begin(0)
    const { promptTokenIds, rules } = this.request
    for (const event of toPromptEvents(answer, promptTokenIds, rules.promptLogprobs ?? 0)) this.#tellPrompt(event)
    this.#receiveChoices(node, answer.choices)
  }

  #begin(cachedTokens: number): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#listener.onStarted(cachedTokens)
  }

  /** Nobody behind this can make text of other numbers. */
  #assertKnown({ tokenId, top }: Pick<PromptTokenEvent, 'tokenId' | 'top'>, keptIds: readonly number[] = []): void {
    const { vocabularySize } = this.#options
    const isKnown = (id: number): boolean => Number.isInteger(id) && id >= 0 && id < vocabularySize
    if (isKnown(tokenId) && top.every(({ id }) => isKnown(id)) && keptIds.every(isKnown)) return
    throw new RangeError('a token of another vocabulary')
  }

  #tellPrompt(event: PromptTokenEvent): void {
    if (event.position >= this.request.promptTokenIds.length) throw new RangeError('no position of the prompt')
    if (event.top.length > this.#limits.listed) throw new RangeError('more likely tokens than were asked for')
    this.#assertKnown(event)
    // told before, by a node that went away
    if (event.position <= this.#promptPositions) return
    this.#promptPositions = event.position
    this.#listener.onPromptToken?.(event)
  }

  #receiveChoices(node: EngineNode, choices: readonly WireChoice[]): void {
    const sent = this.#sent
    for (const choice of choices) {
      // it has ended, or another node begins anew
      if (this.#isOver || this.#sent !== sent) return
      this.#receiveChoice(node, choice)
    }
  }

  /** Whoever reads its tokens pays for each: more than was asked for is no answer. */
  #assertAskedFor({ index, token_ids: ids, logprobs }: WireChoice): void {
    const count = (this.#counts.get(index) ?? 0) + (ids?.length ?? 0)
    const content = logprobs?.content ?? []
    this.#counts.set(index, count)
    const { tokens, listed } = this.#limits
    if (index >= this.request.rules.n || count > tokens || content.length > (ids?.length ?? 0)) {
      throw new RangeError('more choices or tokens than were asked for')
    }
    if (content.some(({ top_logprobs: top }) => top.length > listed)) {
      throw new RangeError('more likely tokens than were asked for')
    }
  }

  #receiveChoice(node: EngineNode, choice: WireChoice): void {
    this.#assertAskedFor(choice)
    if (!this.#open.has(choice.index)) return
    const events = toTokenEvents(choice, this.#answerOptions(node))
    for (const event of events) {
      const keptIds = event.drawn?.keptIds ?? []
      this.#assertKnown(event, keptIds)
      if (keptIds.length > 0 && !keptIds.includes(event.tokenId)) throw new RangeError('a token from outside its set')
    }
    if (events.length > 0) this.#hasToken = true
    for (const event of events) {
      const mayGoOn = this.#listener.onToken(event)
      if (mayGoOn && event.finishReason === null) continue
      this.#open.delete(choice.index)
      if (event.finishReason === null) this.#endsByItself = false
      break
    }
    if (this.#open.has(choice.index) && isCutShort(choice)) {
      this.#failAt(node, nodeLost(node, `ended the answer by itself (${choice.finish_reason})`), true)
    } else if (this.#open.size === 0) {
      // what may still come belongs to nobody
      if (this.#endsByItself) this.#sent?.leave()
      else this.#cut()
      this.#finish()
    }
  }

  #ended(node: EngineNode, failure: NodeFailure | null): void {
    if (this.#isOver) return
    this.#sent = null
    const missing: NodeFailure = { kind: 'lost', reason: 'ended the answer before its last token' }
    const why = failure ?? missing
    this.#failAt(node, toNodeError(node, why), isNodesOwn(why))
  }

  /** @param isNodesFault another node may do better */
  #failAt(node: EngineNode, error: AppError, isNodesFault: boolean): void {
    this.#cut()
    if (isNodesFault) this.#options.onFault(node)
    if (isNodesFault && !this.#hasToken) this.start(error)
    else this.fail(error)
  }
}
