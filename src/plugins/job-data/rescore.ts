/**
 * Log-probabilities of given tokens under a checkpoint, as the engine computes them for a prompt that is not gone on from.
 *
 * The engine may round where training does not (int8), so that its numbers differ from the trainer's by a few thousandths of a nat.
 */
import { append } from '#base/util/lists.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import { usageKeyOf } from '#service/operations/access/usage.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { checkpointOf } from '#service/operations/generation/chat/chat.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import type { CompletionCommand } from '#service/operations/generation/completions/completion-request.js'
import { findModel } from '#service/storage/models.js'

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'engines' | 'baseModels' | 'usage'>

interface ScoreRequest {
  readonly modelId: string
  /** Of the checkpoint, or `latest`; 0 is the base model. */
  readonly step: string
  readonly tokenIds: Int32Array
  readonly signal: AbortSignal
}

/** One number a token, null for the first; and what computed them. */
export interface Scored {
  readonly step: number
  readonly fingerprint: string
  readonly logprobs: readonly (number | null)[]
}

/** Nothing is sampled. */
const SAMPLING: CompletionCommand['sampling'] = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: null,
  allowedTokenIds: null,
  seed: null,
  n: 1,
  maxTokens: 0,
  minTokens: 0,
  stop: [],
  stopTokenIds: [],
  includeStopStrInOutput: false,
  ignoreEos: false,
  skipSpecialTokens: false,
  topLogprobs: 0,
  promptLogprobs: 0,
}

/** @throws what a request for a completion of these tokens would: `model_not_found`, `context_length_exceeded`, `queue_full` */
export function createScorer(context: Context) {
  return async function score(principal: Principal, request: ScoreRequest): Promise<Scored> {
    const { modelId, step, tokenIds, signal } = request
    const suffix = step === 'latest' ? '' : `:step${step}`
    const policy = await resolvePolicy(context, principal, `${modelId}${suffix}`)
    const engine = context.engines.engineOf(policy.baseModel, ownerOf(principal))
    const command = {
      id: context.ids.uuid(),
      keyId: principal.keyId,
      owner: ownerOf(principal),
      adapter: policy.adapter,
      prompt: { tokenIds: [...tokenIds] },
      sampling: SAMPLING,
      truncatePromptTokens: null,
      grammar: null,
      cacheSalt: null,
    }
    const model = await findModel(context.db, modelId)
    const usage = usageKeyOf(principal, model, policy.baseModel)
    const logprobs: (number | null)[] = []
    for await (const event of context.usage.count(engine.generate(command, signal), usage)) {
      if (event.type === 'prompt')
        append(
          logprobs,
          event.positions.map(({ logprob }) => logprob),
        )
    }
    return { step: policy.step, fingerprint: checkpointOf(policy, engine.loaded()?.weightsDigest), logprobs }
  }
}
