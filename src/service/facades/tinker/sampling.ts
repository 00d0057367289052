/**
 * Sampling and scoring for the Tinker client: prompts and answers are token ids, no chat template is in between.
 * A stop token ends the answer and is part of it. When a sample runs and how long it stays is `samples.ts`.
 */
import { AppError, fullMessage, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { append } from '#base/util/lists.js'
import type { SampleRequest } from '#contract/wire/compatible/tinker.js'
import { type Alternatives, encodeSampleOutput } from '#formats/tinker/results.js'
import type { AdapterRef, PromptPosition, SamplingParameters, TokenLogprob } from '#inference/host/protocol.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import { digestOfAdapter } from '#service/queue/outcome.js'
import { toLocalFiles } from '#service/storage/blobs.js'
import {
  findClientSession,
  findSampler,
  insertSampler,
  type SamplerRecord,
} from '#service/storage/tinker/client-sessions.js'
import { findSessionWeights, type SessionWeightsRecord } from '#service/storage/tinker/session-weights.js'
import { isOwn, ownerOf } from '../../operations/access/tenant.js'
import { usageKeyOf } from '../../operations/access/usage.js'
import type { Principal, ServiceContext } from '../../operations/context.js'
import { notServed, requireClientSession, requireWeights } from './errors.js'
import type { SampleState, Samples } from './samples.js'

export type SamplingContext = Pick<
  ServiceContext,
  'db' | 'blobs' | 'ids' | 'engines' | 'baseModels' | 'usage' | 'logger'
>

/** Of a prompt that waits: a number in a list. */
const TOKEN_BYTES = 8
const SERVED_FILES: readonly string[] = ['adapter_config.json', 'adapter_model.safetensors', 'manifest.json']

export function createSampling(context: SamplingContext, samples: Samples) {
  const { db, ids, engines } = context
  async function resolve(principal: Principal, request: SampleRequest) {
    const id = request.sampling_session_id
    if (id !== null && id !== undefined) return requireSampler(principal, id)
    return describe(principal, { id: ids.uuid(), clientSessionId: '' }, request)
  }

  async function describe(
    principal: Principal,
    of: Pick<SamplerRecord, 'id' | 'clientSessionId'>,
    { base_model: base, model_path: path }: Pick<SampleRequest, 'base_model' | 'model_path'>,
  ): Promise<SamplerRecord> {
    const found = path === null || path === undefined ? null : await requireWeights(db, principal, path)
    const baseModel = found?.session.baseModel ?? base ?? ''
    if (!context.baseModels.some(({ name }) => name === baseModel)) {
      const known = context.baseModels.map(({ name }) => `"${name}"`).join(', ')
      throw new InvalidRequestError(
        'unknown_base_model',
        `base_model must be one of ${known}, got "${baseModel.slice(0, 200)}"`,
      )
    }
    return { ...of, entity: principal.entity, baseModel, weightsId: found?.weights.id ?? null, modelPath: path ?? null }
  }

  async function requireSampler(principal: Principal, id: string): Promise<SamplerRecord> {
    const sampler = await findSampler(db, id)
    const client = sampler === null ? null : await findClientSession(db, sampler.clientSessionId)
    if (sampler !== null && client !== null && isOwn(principal, client)) return sampler
    throw new NotFoundError('sampler_not_found', `sampler "${id.slice(0, 200)}" was not found`)
  }

  async function adapterOf({ weightsId, id }: SamplerRecord): Promise<AdapterRef | null> {
    if (weightsId === null) return null
    const weights = await findSessionWeights(db, { id: weightsId })
    if (weights !== null) return toAdapter(context.blobs, weights)
    throw new NotFoundError('weights_not_found', `the weights of sampler "${id}" were deleted, or have expired`, {
      hint: 'save weights for sampling again',
    })
  }

  async function run(
    principal: Principal,
    { sampler, request }: { readonly sampler: SamplerRecord; readonly request: SampleRequest },
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const adapter = await adapterOf(sampler)
    const engine = engines.engineOf(sampler.baseModel, ownerOf(principal))
    const command = {
      id: ids.uuid(),
      keyId: principal.keyId,
      owner: ownerOf(principal),
      adapter,
      prompt: { tokenIds: promptOf(request) },
      sampling: toSampling(request),
      truncatePromptTokens: null,
      grammar: null,
      cacheSalt: null,
    }
    const events = engine.generate(command, signal)
    const usage = usageKeyOf(principal, null, sampler.baseModel)
    return collect(context.usage.count(events, usage), request)
  }

  return {
    createSampler: async (
      principal: Principal,
      request: Pick<SampleRequest, 'base_model' | 'model_path'> & {
        readonly session_id: string
        readonly sampling_session_seq_id: number
      },
    ) => {
      const client = await requireClientSession(db, principal, request.session_id)
      const id = `${client.id}:sample:${request.sampling_session_seq_id}`
      await insertSampler(db, await describe(principal, { id, clientSessionId: client.id }, request))
      return { type: 'create_sampling_session' as const, sampling_session_id: id }
    },
    sampler: async (principal: Principal, id: string) => {
      const { baseModel, modelPath } = await requireSampler(principal, id)
      return { sampler_id: id, base_model: baseModel, model_path: modelPath }
    },
    sample: async (principal: Principal, request: SampleRequest) => {
      assertServed(request)
      const sampler = await resolve(principal, request)
      const id = `${sampler.id}:answer:${request.seq_id ?? ids.uuid()}`
      const known = samples.sequencesOf(id)
      if (known !== null) return { request_id: id, sample_sequence_ids: [...known] }
      const sequenceIds = Array.from({ length: request.num_samples }, (_, i) => `${id}:${i}`)
      const { keyId } = principal
      const { clientSessionId } = sampler
      const promptBytes = promptOf(request).length * TOKEN_BYTES
      samples.start(
        { id, owner: ownerOf(principal), keyId, clientSessionId, sequenceIds, promptBytes },
        (signal) => run(principal, { sampler, request }, signal),
        (error) => {
          const failure = toFailure(error)
          if (failure.kind === 'failed' && !failure.isUserError) {
            context.logger.error({ err: error, sampler_id: sampler.id }, 'sample.failed')
          }
          return failure
        },
      )
      return { request_id: id, sample_sequence_ids: sequenceIds }
    },
  }
}

/** @throws {InvalidRequestError} `not_served` */
function assertServed(request: SampleRequest): void {
  if (request.target_prompt_logprobs !== null && request.target_prompt_logprobs !== undefined) {
    throw notServed('target_prompt_logprobs', 'topk_prompt_logprobs has alternatives of each position')
  }
  if (request.prompt_alt_tokens_k > 0) throw notServed('prompt_alt_tokens_k')
  if (request.prompt_logprobs_last_n !== null && request.prompt_logprobs_last_n !== undefined) {
    throw notServed(
      'prompt_logprobs_last_n',
      'prompt_logprobs scores the whole prompt; a shared beginning is computed once',
    )
  }
  if (request.record_stability_info === true) {
    throw notServed('record_stability_info', 'train with loss_fn importance_sampling, ppo, cispo, dro or gspo')
  }
  if (promptOf(request).length === 0) throw new InvalidRequestError('empty_prompt', 'the prompt has no tokens')
}

function promptOf({ prompt }: SampleRequest): number[] {
  return prompt.chunks.flatMap(({ type, tokens }, i) => {
    if (type === 'encoded_text' && tokens !== undefined) return tokens
    throw notServed(`prompt.chunks[${i}] of type "${type.slice(0, 40)}"`, 'prompts are encoded_text')
  })
}

function toSampling(request: SampleRequest): SamplingParameters {
  const { sampling_params: given } = request
  const stop = given.stop ?? null
  const list = stop === null ? [] : typeof stop === 'string' ? [stop] : stop
  const asksPrompt = request.prompt_logprobs === true || request.topk_prompt_logprobs > 0
  return {
    temperature: given.temperature,
    topP: given.top_p === 0 ? 1e-6 : given.top_p,
    topK: Math.max(0, given.top_k),
    minP: 0,
    repetitionPenalty: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
    logitBias: null,
    allowedTokenIds: null,
    seed: given.seed === null || given.seed === undefined ? null : BigInt(given.seed),
    n: request.num_samples,
    maxTokens: given.max_tokens ?? null,
    minTokens: 0,
    stop: list.filter((each) => typeof each === 'string'),
    stopTokenIds: list.filter((each) => typeof each === 'number'),
    includeStopStrInOutput: true,
    // what is given takes the place of the end of sequence; an empty list turns it off
    ignoreEos: stop !== null && typeof stop !== 'string' && stop.every((each) => typeof each === 'number'),
    skipSpecialTokens: false,
    topLogprobs: request.topk_sample_logprobs,
    promptLogprobs: asksPrompt ? request.topk_prompt_logprobs : null,
  }
}

interface Choice {
  isStopped: boolean
  readonly tokens: number[]
  readonly logprobs: number[]
  readonly alternatives: (readonly TokenLogprob[])[]
}

async function collect(events: AsyncIterable<GenerationEvent>, request: SampleRequest): Promise<Uint8Array> {
  const choices = Array.from(
    { length: request.num_samples },
    (): Choice => ({ isStopped: false, tokens: [], logprobs: [], alternatives: [] }),
  )
  const positions: PromptPosition[] = []
  let cachedTokens = 0
  for await (const event of events) {
    if (event.type === 'started') cachedTokens = event.cachedTokens
    else if (event.type === 'prompt') append(positions, event.positions)
    else {
      const choice = choices[event.choice] as Choice
      append(choice.tokens, event.tokenIds)
      append(
        choice.logprobs,
        event.logprobs.map(({ logprob }) => logprob),
      )
      append(
        choice.alternatives,
        event.logprobs.map(({ top }) => top),
      )
      if (event.finishReason !== null) choice.isStopped = event.finishReason === 'stop'
    }
  }
  const { topk_prompt_logprobs: prompt, topk_sample_logprobs: sample } = request
  return encodeSampleOutput({
    sequences: choices.map((choice) => ({ ...choice, alternatives: sample > 0 ? choice.alternatives : null })),
    promptLogprobs: request.prompt_logprobs === true ? positions.map(({ logprob }) => logprob ?? Number.NaN) : null,
    promptAlternatives: prompt > 0 ? positions.map(({ top }): Alternatives[number] => top) : null,
    cachedTokens,
    alternativeCounts: { prompt, sample },
  })
}

async function toAdapter(blobs: ServiceContext['blobs'], weights: SessionWeightsRecord): Promise<AdapterRef> {
  const checkpoint = `weights "${weights.name ?? weights.id}" of training run "${weights.sessionId}"`
  return {
    digest: digestOfAdapter(weights.files),
    checkpoint,
    files: await toLocalFiles(
      blobs,
      checkpoint,
      weights.files.filter(({ name }) => SERVED_FILES.includes(name)),
    ),
  }
}

function toFailure(error: unknown): SampleState {
  if (!(error instanceof AppError))
    return { kind: 'failed', error: 'the server failed unexpectedly', isUserError: false }
  const isPassing = ['rate_limited', 'unavailable', 'cancelled'].includes(error.category)
  if (isPassing) return { kind: 'gone' }
  const isUserError = error.category === 'invalid_request' || error.category === 'not_found'
  return { kind: 'failed', error: fullMessage(error), isUserError }
}
