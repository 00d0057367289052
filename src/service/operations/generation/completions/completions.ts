/**
 * Completions: resolves the policy, runs the engine for every prompt, shapes the answer.
 */
import { setMaxListeners } from 'node:events'
import { AppError } from '#base/errors/errors.js'
import type { CompletionChunk, CompletionRequest, CompletionResponse } from '#contract/wire/inference/completions.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import { asHeard, heardBy } from '../../access/answer-listener.js'
import { ownerOf } from '../../access/tenant.js'
import { usageKeyOf } from '../../access/usage.js'
import type { Principal, ServiceContext } from '../../context.js'
import { checkpointOf, checkTruncation } from '../chat/chat.js'
import { resolvePolicy } from '../chat/served-models.js'
import { type CompletionBuilder, createCompletionBuilder } from './completion-answer.js'
import { type CompletionOptions, toCompletionPlan } from './completion-request.js'
import { type NumberedEvent, sideBySide } from './side-by-side.js'

/** Prompts of one request that the engine has at once. */
const PROMPTS_AT_ONCE = 16

/** An admitted request. Exactly one of the two ways to read it is used. */
export interface CompletionAnswer {
  /** What answers: model, step and adapter digest, in ASCII. */
  readonly checkpoint: string
  readonly isStream: boolean
  response(): Promise<CompletionResponse>
  /** The chunks of a stream, without the final `[DONE]`. */
  chunks(): AsyncIterable<CompletionChunk>
}

export interface CompletionService {
  /**
   * Admits a request: what can be refused of its first prompts has been refused when this resolves.
   *
   * @param requestId the client's id, used in the answer's id
   * @param signal aborted when the client goes away
   */
  create(
    principal: Principal,
    request: CompletionRequest,
    requestId: string,
    signal: AbortSignal,
  ): Promise<CompletionAnswer>
}

export function createCompletionService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'engines' | 'baseModels' | 'chatRules' | 'usage'>,
): CompletionService {
  return {
    create: async (principal, request, requestId, signal) => {
      const policy = await resolvePolicy(context, principal, request.model ?? null)
      const plan = asHeard(principal, toCompletionPlan(request, context.chatRules))
      const { commands, options, sampling } = plan
      const engine = context.engines.engineOf(policy.baseModel, ownerOf(principal))
      const [command] = commands
      if (command !== undefined) await checkTruncation(engine, command)
      const usageKey = usageKeyOf(principal, policy.model, policy.baseModel)
      const ended = new AbortController()
      const stop = AbortSignal.any([signal, ended.signal])
      // every open prompt listens
      setMaxListeners(PROMPTS_AT_ONCE + 1, stop)
      const events = sideBySide(
        commands.map((command, i) => () => {
          const request = {
            id: context.ids.uuid(),
            keyId: principal.keyId,
            owner: ownerOf(principal),
            adapter: policy.adapter,
            ...asHeard(principal, command),
            ...(principal.priority === undefined ? {} : { priority: principal.priority }),
          }
          const events = context.usage.count(engine.generate(request, stop), usageKey, i === 0 ? 1 : 0)
          return heardBy(principal, { policy, sampling: request.sampling }, events)
        }),
        { atOnce: PROMPTS_AT_ONCE, onEnd: () => ended.abort() },
      )
      const first = await untilStarted(events, Math.min(commands.length, PROMPTS_AT_ONCE), signal)
      const checkpoint = checkpointOf(policy, engine.loaded()?.weightsDigest)
      const identity = {
        id: `cmpl-${requestId}`,
        createdSeconds: Math.floor(context.clock.nowMs() / 1000),
        model: policy.servedName,
        fingerprint: checkpoint,
      }
      const builder = createCompletionBuilder(identity, options, { promptCount: commands.length, sampling })
      return {
        checkpoint,
        isStream: options.isStream,
        response: () => collect(first, events, { builder, signal }),
        chunks: () => stream(first, events, { builder, options }),
      }
    },
  }
}

type Events = AsyncGenerator<NumberedEvent<GenerationEvent>>

/** The events up to the start of so many prompts; anything thrown before becomes a plain HTTP error. */
async function untilStarted(
  events: Events,
  count: number,
  signal: AbortSignal,
): Promise<readonly NumberedEvent<GenerationEvent>[]> {
  const first: NumberedEvent<GenerationEvent>[] = []
  let started = 0
  while (started < count) {
    const next = await events.next()
    if (next.done === true || signal.aborted) {
      await events.return(undefined)
      throw new AppError('cancelled', 'cancelled', 'the request was aborted before it started')
    }
    first.push(next.value)
    if (next.value.event.type === 'started') started++
  }
  return first
}

async function collect(
  first: readonly NumberedEvent<GenerationEvent>[],
  events: Events,
  { builder, signal }: { readonly builder: CompletionBuilder; readonly signal: AbortSignal },
): Promise<CompletionResponse> {
  for (const { index, event } of first) builder.add(index, event)
  for await (const { index, event } of events) builder.add(index, event)
  if (signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
  return builder.response()
}

async function* stream(
  first: readonly NumberedEvent<GenerationEvent>[],
  events: Events,
  { builder, options }: { readonly builder: CompletionBuilder; readonly options: CompletionOptions },
): AsyncGenerator<CompletionChunk> {
  try {
    for (const { index, event } of first) yield* builder.add(index, event)
    for await (const { index, event } of events) yield* builder.add(index, event)
    if (options.includeUsage) yield builder.usageChunk()
  } finally {
    await events.return(undefined)
  }
}
