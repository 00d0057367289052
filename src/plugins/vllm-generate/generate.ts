/**
 * Tokens in, tokens out: the request as one of completions, run by the engine, its events as answers.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { CompletionRequest } from '#contract/wire/inference/completions.js'
import type { GeneratedAnswer } from '#service/http/generated-answer.js'
import { asHeard, heardBy } from '#service/operations/access/answer-listener.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import { usageKeyOf } from '#service/operations/access/usage.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { checkpointOf } from '#service/operations/generation/chat/chat.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import { toCompletionPlan } from '#service/operations/generation/completions/completion-request.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import { type AnswerBuilder, createAnswerBuilder } from './answer.js'
import type { GenerateChunk, GenerateRequest, GenerateResponse } from './wire.js'

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'engines' | 'baseModels' | 'chatRules' | 'usage'>

interface GenerateAnswer extends GeneratedAnswer {
  response(): Promise<GenerateResponse>
  chunks(): AsyncIterable<GenerateChunk>
}

interface GenerateService {
  /**
   * Admits a request: what can be refused has been refused when this resolves.
   *
   * @param requestId comes back in the answer
   * @param signal aborted when the client goes away
   */
  create(
    principal: Principal,
    request: GenerateRequest,
    requestId: string,
    signal: AbortSignal,
  ): Promise<GenerateAnswer>
}

/** What vLLM takes here and this server has nothing for. */
const UNSERVED = ['features', 'content_parts', 'kv_transfer_params', 'ec_transfer_params'] as const

export function createGenerateService(context: Context): GenerateService {
  return {
    create: async (principal, request, requestId, signal) => {
      refuseUnserved(request)
      const policy = await resolvePolicy(context, principal, request.model ?? null)
      const { commands, options, sampling } = toCompletionPlan(asCompletion(request), context.chatRules)
      const engine = context.engines.engineOf(policy.baseModel, ownerOf(principal))
      const command = asHeard(principal, {
        ...{ id: context.ids.uuid(), keyId: principal.keyId, owner: ownerOf(principal), adapter: policy.adapter },
        ...(commands[0] as (typeof commands)[number]),
        ...(principal.priority === undefined ? {} : { priority: principal.priority }),
        // as vLLM here, and not as in completions: to the end of the context
        sampling: { ...sampling, maxTokens: request.sampling_params?.max_tokens ?? null },
      })
      const usageKey = usageKeyOf(principal, policy.model, policy.baseModel)
      const counted = context.usage.count(engine.generate(command, signal), usageKey, 1)
      const events = heardBy(principal, { policy, sampling: command.sampling }, counted)
      const first = await untilStarted(events)
      const builder = createAnswerBuilder(
        {
          request_id: requestId,
          model: policy.servedName,
          created: Math.floor(context.clock.nowMs() / 1000),
          output_mode: request.output_mode ?? 'tokens',
          logprobs_mode: request.sampling_params?.extra_args?.trainyard?.logprobs_mode ?? 'processed_logprobs',
        },
        { ...options, hasPromptIds: request.return_token_ids === true },
        command.sampling,
      )
      return {
        checkpoint: checkpointOf(policy, engine.loaded()?.weightsDigest),
        isStream: options.isStream,
        response: async () => {
          for (const event of first) builder.add(event)
          for await (const event of rest(events)) builder.add(event)
          if (signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
          return builder.response()
        },
        chunks: () => stream(first, events, { builder, includeUsage: options.includeUsage }),
      }
    },
  }
}

function refuseUnserved(request: GenerateRequest): void {
  const given = UNSERVED.find((name) => {
    const value = request[name] ?? null
    return value !== null && Object.keys(value).length > 0
  })
  if (given === undefined) return
  throw new InvalidRequestError('unsupported_parameter', `${given} is not served here: prompts are token ids alone`, {
    param: given,
    hint: `leave ${given} out`,
  })
}

/** The same in the words of completions; ids of answers are wanted always. */
function asCompletion(request: GenerateRequest): CompletionRequest {
  const { extra_args: _, ...params } = request.sampling_params ?? {}
  const { stream, stream_options, cache_salt, priority } = request
  return {
    ...params,
    stream,
    stream_options,
    cache_salt,
    priority,
    prompt: [request.token_ids],
    return_token_ids: true,
  }
}

type Events = AsyncIterator<GenerationEvent>

/** The events up to the start; what is thrown before is a plain HTTP error. */
async function untilStarted(events: Events): Promise<readonly GenerationEvent[]> {
  const first: GenerationEvent[] = []
  while (first.at(-1)?.type !== 'started') {
    const next = await events.next()
    if (next.done === true) throw new AppError('cancelled', 'cancelled', 'the request was aborted before it started')
    first.push(next.value)
  }
  return first
}

const rest = (events: Events): AsyncIterable<GenerationEvent> => ({ [Symbol.asyncIterator]: () => events })

async function* stream(
  first: readonly GenerationEvent[],
  events: Events,
  { builder, includeUsage }: { readonly builder: AnswerBuilder; readonly includeUsage: boolean },
): AsyncGenerator<GenerateChunk> {
  try {
    for (const event of first) yield* builder.add(event)
    for await (const event of rest(events)) yield* builder.add(event)
    if (includeUsage) yield builder.usageChunk()
  } finally {
    await events.return?.(undefined)
  }
}
