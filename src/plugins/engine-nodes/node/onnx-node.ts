/**
 * Our own engine behind the wire of engine nodes. It computes what it computes in the server's own host, bit for bit.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { toErrorMessage } from '#base/errors/error-message.js'
import type { AppError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import { packageVersion } from '#base/util/package-root.js'
import type { GenerateChunk, WireChoice, WireDraw, WireError, WireToken } from '#contract/processes/token-wire.js'
import type { GenerationListener, TokenEvent } from '#inference/engine/generation.js'
import type { RankedToken } from '#inference/engine/sampling/logprobs.js'
import { loadAdapter } from '#inference/host/adapters/load-adapter.js'
import { afterReasoning, createGrammars, leaseFor, releasing } from '#inference/host/answer-grammars.js'
import { openLocalEngine } from '#inference/host/local-engine.js'
import type { LoadCommand } from '#inference/host/protocol.js'
import { readConfig } from '#inference/host/read-config.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { loadTextModel } from '#model/text/text-model.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { AdapterFolder } from './adapter-folder.js'
import { readGenerateBody, toEngineRequest } from './generate-request.js'
import { readText } from './http-text.js'
import type { NodeEngine } from './node-engine.js'

export interface OnnxNodeOptions {
  readonly load: LoadCommand
  readonly adapters: AdapterFolder
  readonly runtime: Runtime
  readonly clock: Clock
}

/** @throws {AppError} as loading has it */
export async function openOnnxNode({ load, adapters, runtime, clock }: OnnxNodeOptions): Promise<NodeEngine> {
  const config = await readConfig(load.sourcePath)
  const textModel = await loadTextModel(load.sourcePath)
  const { engine } = await openLocalEngine(load, { config, textModel, runtime, onThreadsChange: () => undefined })
  const modules = adapterModules(config)
  const grammars = createGrammars(textModel, config.vocabularySize, clock)

  async function generate(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const read = readGenerateBody(await readText(request))
    const { body, own, grammar } = read
    const isGone = (): boolean => response.destroyed || response.writableEnded
    const maxTokens = Math.min(body.sampling_params.max_tokens ?? engine.contextLength, engine.contextLength)
    const wish = { grammar, maxTokens, ...(own.key_id === undefined ? {} : { keyId: own.key_id }) }
    const lease = await leaseFor(wish, grammars, () => !isGone())
    try {
      const digest = body.model
      // fetched here, so that one that cannot be had is an error of its request alone
      if (digest !== null) await adapters.ensure(digest)
      const adapter =
        digest === null ? null : { digest, load: async () => loadAdapter(await adapters.ensure(digest), modules) }
      const isHeldLater = own.grammar_after_reasoning === true
      const createMask = lease?.createMask ?? null
      const mask =
        createMask !== null && isHeldLater ? () => afterReasoning(createMask(), textModel.tokenizer) : createMask
      const listener = releasing(answerListener(response), lease)
      if (isGone()) return lease?.release()
      // ids of two servers may be the same
      const id = `${body.request_id} ${requests++}`
      engine.submit({ ...toEngineRequest(read, adapter, mask), id }, listener)
      response.once('close', () => engine.abort(id))
    } catch (error) {
      lease?.release()
      throw error
    }
  }

  return {
    engine: 'onnx',
    contextLength: engine.contextLength,
    slots: load.maxConcurrentSequences,
    device: 'cpu',
    versions: { trainyard: packageVersion(), node: process.versions.node },
    isReady: true,
    get running() {
      return engine.runningSequences
    },
    get waiting() {
      return engine.waitingRequests
    },
    get adapters() {
      return adapters.held()
    },
    generate,
    dropAdapter: async (digest) => engine.forgetAdapter(digest),
    idle: () => engine.idle(),
    close: () => engine.close(),
  }
}

let requests = 0

/** Writes what the engine says. Tokens of one step leave as one packet of the connection. */
function answerListener(response: ServerResponse): GenerationListener {
  const write = (chunk: GenerateChunk): void => {
    if (!response.headersSent) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    }
    response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }
  return {
    onStarted: (cachedTokens) => write({ choices: [], cached_tokens: cachedTokens }),
    onPromptToken: ({ position, tokenId, rank, logprob, top }) =>
      write({ choices: [], prompt: [{ position, token_id: tokenId, rank, logprob, top_logprobs: top.map(toWire) }] }),
    onToken: (event) => {
      write({ choices: [toChoice(event)] })
      return true
    },
    // whoever asked is gone
    onAborted: () => undefined,
    onFinished: () => response.end('data: [DONE]\n\n'),
    onFailed: (error) => {
      if (!response.headersSent) sendError(response, error)
      else {
        write({ choices: [], error: toWireError(error) })
        response.end('data: [DONE]\n\n')
      }
    },
  }
}

function toChoice(event: TokenEvent): WireChoice {
  const { choice, tokenId, logprob, top, finishReason, stopReason } = event
  const content = [{ token_id: tokenId, logprob, top_logprobs: top.map(toWire), ...toWireDraw(event) }]
  return {
    index: choice,
    token_ids: [tokenId],
    logprobs: { content },
    finish_reason: finishReason,
    stop_reason: stopReason,
  }
}

function toWireDraw({ drawn }: TokenEvent): { readonly drawn?: WireDraw } {
  if (drawn === undefined) return {}
  const { logprob, keptIds, unmodelled } = drawn
  return {
    drawn: {
      logprob,
      ...(keptIds === null ? {} : { kept_ids: [...keptIds] }),
      ...(unmodelled.length === 0 ? {} : { unmodelled: [...unmodelled] }),
    },
  }
}

const toWire = ({ id, logprob }: RankedToken): WireToken => ({ token_id: id, logprob })

function toWireError(error: AppError): WireError {
  const { code, message, param = null } = error
  return { message, code, param, trainyard: { ...toErrorMessage(error), cause: null } }
}

const STATUS: Partial<Record<AppError['category'], number>> = {
  invalid_request: 400,
  authentication: 401,
  not_found: 404,
  too_large: 413,
  rate_limited: 429,
  unavailable: 503,
}

/** An error instead of an answer. */
export function sendError(response: ServerResponse, error: AppError): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const body = JSON.stringify({ error: toWireError(error) })
  response.writeHead(STATUS[error.category] ?? 500, { 'content-type': 'application/json' }).end(body)
}
