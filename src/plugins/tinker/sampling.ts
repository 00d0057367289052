/**
 * Sampling and scoring for the Tinker client: prompts and answers are token ids, no chat template is in between.
 * A stop token ends the answer and is part of it. When a sample runs and how long it stays is `samples.ts`.
 */
import { AppError, fullMessage } from '#base/errors/errors.js'
import type { SampleRequest } from '#contract/wire/training/training-loops.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import { usageKeyOf } from '#service/operations/access/usage.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { SamplerRecord } from '#service/storage/training-sessions/client-sessions.js'
import { collectOutput } from './sample-output.js'
import { assertServed, promptOf, toSampling } from './sample-request.js'
import type { Samplers } from './samplers.js'
import type { SampleState, Samples } from './samples.js'

/** Of a prompt that waits: a number in a list. */
const TOKEN_BYTES = 8

export function createSampling(
  context: Pick<ServiceContext, 'ids' | 'engines' | 'usage' | 'logger'>,
  { samples, samplers }: { readonly samples: Samples; readonly samplers: Samplers },
) {
  const { ids, engines } = context

  async function run(
    principal: Principal,
    { sampler, request }: { readonly sampler: SamplerRecord; readonly request: SampleRequest },
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const adapter = await samplers.adapterOf(sampler)
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
    return collectOutput(context.usage.count(events, usage), request)
  }

  return {
    sample: async (principal: Principal, request: SampleRequest) => {
      assertServed(request)
      const sampler = await samplers.resolve(principal, request)
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

function toFailure(error: unknown): SampleState {
  if (!(error instanceof AppError))
    return { kind: 'failed', error: 'the server failed unexpectedly', isUserError: false }
  const isPassing = ['rate_limited', 'unavailable', 'cancelled'].includes(error.category)
  if (isPassing) return { kind: 'gone' }
  const isUserError = error.category === 'invalid_request' || error.category === 'not_found'
  return { kind: 'failed', error: fullMessage(error), isUserError }
}
