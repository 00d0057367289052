/**
 * Chat completions: resolves the policy, runs the engine, shapes the answer.
 *
 * The answer names what produced it in `system_fingerprint` and in `checkpoint`, which the route sends as the header
 * `x-trainyard-checkpoint`. Errors before the first event are thrown, also for a stream; later ones end the stream.
 */

import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import {
  type ChatChunk,
  type ChatRequest,
  type ChatResponse,
  SCHEMA_VIOLATIONS,
} from '#contract/wire/chat-completions.js'
import type { ServedListQuery, ServedModel } from '#contract/wire/models.js'
import { answerFormatOf } from '#formats/answers/answer-format.js'
import { callIdOf } from '#formats/answers/call-id.js'
import type { AnswerFormat, StartedEvent } from '#inference/host/protocol.js'
import type { EngineProcess, GenerationEvent } from '#service/processes/engine-process.js'
import { asHeard, heardBy } from '../../access/answer-listener.js'
import { ownerOf } from '../../access/tenant.js'
import { usageKeyOf } from '../../access/usage.js'
import type { Principal, ServiceContext } from '../../context.js'
import { withAllowedTools } from './allowed-tools.js'
import { AnswerMemory } from './answer-memory.js'
import { type AnswerBuilder, createAnswerBuilder } from './chat-answer.js'
import {
  type AnswerOptions,
  type EngineCommand,
  toAnswerOptions,
  toEngineCommand,
  unreadFields,
} from './chat-request.js'
import { heldCalls, isStrictIgnored } from './held-calls.js'
import { withFunctions } from './older-calls.js'
import { isAlwaysChecked, unheldFields, ViolationFinder } from './schema-violations.js'
import { createServedList } from './served-list.js'
import { describeServedModel, type Policy, resolvePolicy } from './served-models.js'

/** An admitted request. Exactly one of the two ways to read it is used. */
export interface ChatAnswer {
  /** What answers: model, step and adapter digest, in ASCII. */
  readonly checkpoint: string
  readonly isStream: boolean
  /** A trainable model answers: what it said may be trained on, so its tokens are shown. */
  readonly isTrainable: boolean
  /** Parts of the request that the answer is not held to, by name. */
  readonly ignoredFields: readonly string[]
  /** The whole answer. */
  response(): Promise<ChatResponse>
  /** The chunks of a stream, without the final `[DONE]`. */
  chunks(): AsyncIterable<ChatChunk>
}

export interface ChatService {
  /**
   * Admits a request: everything that can be refused has been refused when this resolves.
   *
   * @param requestId the client's id, used in the answer's id
   * @param signal aborted when the client goes away
   */
  create(principal: Principal, request: ChatRequest, requestId: string, signal: AbortSignal): Promise<ChatAnswer>
  /** The answer's JSON. @throws {InvalidRequestError} `invalid_cursor` */
  listModels(principal: Principal, query: ServedListQuery): Promise<string>
  /** @param requested a name as in a request */
  describeModel(principal: Principal, requested: string): Promise<ServedModel>
}

export function createChatService(
  context: Pick<
    ServiceContext,
    | 'db'
    | 'blobs'
    | 'ids'
    | 'clock'
    | 'engines'
    | 'baseModels'
    | 'modelFacts'
    | 'chatRules'
    | 'toolFormatOf'
    | 'usage'
    | 'schemaChecker'
  >,
): ChatService {
  const startedSeconds = Math.floor(context.clock.nowMs() / 1000)
  const servedList = createServedList(context, startedSeconds)
  const memory = new AnswerMemory()
  return {
    listModels: servedList.read,
    describeModel: (principal, requested) => describeServedModel(context, principal, { requested, startedSeconds }),
    create: async (principal, given, requestId, signal) => {
      const { request, isFunctionForm } = withFunctions(withAllowedTools(given))
      const policy = await resolvePolicy(context, principal, request.model ?? null)
      const asked = { ...toAnswerOptions(request, policy.model !== null), isFunctionForm }
      const wanted = asHeard(principal, toEngineCommand(request, policy, context.chatRules))
      const engine = context.engines.engineOf(policy.baseModel, ownerOf(principal))
      const { answerFormat, weightsDigest, templateNames = null } = await engine.ready()
      const { chatTemplate = null } = wanted.template
      const set = context.toolFormatOf(policy.baseModel)
      const own = set === null ? answerFormat : { ...answerFormat, toolFormat: set }
      const format = chatTemplate === null ? own : answerFormatOf(chatTemplate)
      checkToolsAreShown(format, asked)
      const held = heldCalls(request, { grammar: wanted.grammar, mode: asked.toolMode, format })
      const options = held === null ? asked : { ...asked, toolMode: held.mode }
      const command: EngineCommand =
        held === null ? wanted : { ...wanted, grammar: held.grammar, grammarParam: wanted.grammarParam ?? 'tools' }
      await checkTruncation(engine, command)
      const owner = JSON.stringify([ownerOf(principal), policy.baseModel])
      const sampled = memory.recall(owner, command.messages as ChatRequest['messages'])
      const counted = context.usage.count(
        engine.generate(
          {
            id: context.ids.uuid(),
            keyId: principal.keyId,
            owner: ownerOf(principal),
            adapter: policy.adapter,
            ...command,
            ...(principal.priority === undefined ? {} : { priority: principal.priority }),
            ...(sampled.length === 0 ? {} : { sampled }),
          },
          signal,
        ),
        usageKeyOf(principal, policy.model, policy.baseModel),
      )
      const generation = heardBy(principal, { policy, ...command }, counted)
      const started = await readStart(generation, signal)
      const checkpoint = checkpointOf(policy, weightsDigest)
      const builder = createAnswerBuilder(
        {
          id: `chatcmpl-${requestId}`,
          createdSeconds: Math.floor(context.clock.nowMs() / 1000),
          model: policy.servedName,
          fingerprint: checkpoint,
        },
        options,
        { sampling: command.sampling, format, createCallId: () => callIdOf(context.ids.uuid().replaceAll('-', '')) },
      )
      builder.start(started)
      const remember = (choice: number): void => {
        const { tokenIds, messages } = builder.sampled(choice)
        if (started.rendered === undefined || options.echo !== null || tokenIds.length === 0) return
        memory.remember(owner, messages, command.messages.length, { prompt: started.rendered, tokenIds })
      }
      const unheld = started.unheld ?? []
      const violations =
        unheld.length === 0 && !isAlwaysChecked(wanted.grammar)
          ? null
          : new ViolationFinder(context.schemaChecker, principal.keyId, request, {
              spec: wanted.grammar,
              hasUnheld: unheld.length > 0,
            })
      return {
        checkpoint,
        isStream: options.isStream,
        isTrainable: policy.model !== null,
        ignoredFields: [
          ...(chatTemplate === null && templateNames !== null ? unreadFields(request, templateNames) : []),
          ...(isStrictIgnored(request, asked.toolMode, held) ? ['tools.strict'] : []),
          ...unheldFields(command.grammarParam ?? 'response_format', unheld),
        ],
        response: () => collect(generation, builder, { signal, violations, choices: options.n, remember }),
        chunks: () => stream(generation, builder, { options, violations, remember }),
      }
    },
  }
}

/** The first event; anything thrown before it becomes a plain HTTP error. */
async function readStart(generation: AsyncIterator<GenerationEvent>, signal: AbortSignal): Promise<StartedEvent> {
  const first = await generation.next()
  // the engine says that it stopped, without having started: the client left while the request waited
  if (first.done === true || (first.value.type === 'delta' && signal.aborted)) {
    await generation.return?.()
    throw new AppError('cancelled', 'cancelled', 'the request was aborted before it started')
  }
  if (first.value.type !== 'started') {
    await generation.return?.()
    throw new AppError('internal', 'engine_protocol', 'the engine sent a delta before it started the request')
  }
  return first.value
}

async function collect(
  generation: AsyncIterator<GenerationEvent>,
  builder: AnswerBuilder,
  {
    signal,
    violations,
    choices,
    remember,
  }: {
    readonly signal: AbortSignal
    readonly violations: ViolationFinder | null
    readonly choices: number
    readonly remember: (choice: number) => void
  },
): Promise<ChatResponse> {
  for (;;) {
    const next = await generation.next()
    if (next.done === true) break
    if (next.value.type === 'delta') {
      builder.add(next.value)
      if (next.value.finishReason !== null) remember(next.value.choice)
    } else if (next.value.type === 'prompt') builder.addPrompt(next.value)
  }
  if (signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
  for (let choice = 0; choice < choices; choice++) await checkChoice(builder, choice, violations)
  return builder.response()
}

/** One that was cut off, or that the request's stop ended, is no whole answer, and says so itself. @returns what it violates; null where that is not asked */
async function checkChoice(
  builder: AnswerBuilder,
  choice: number,
  violations: ViolationFinder | null,
): Promise<readonly string[] | null> {
  if (violations === null) return null
  const finished = builder.finished(choice)
  if (finished.isCut) return null
  const found = await violations.find(finished)
  builder.setViolations(choice, found)
  return found
}

async function* stream(
  generation: AsyncIterator<GenerationEvent>,
  builder: AnswerBuilder,
  {
    options,
    violations,
    remember,
  }: {
    readonly options: AnswerOptions
    readonly violations: ViolationFinder | null
    readonly remember: (choice: number) => void
  },
): AsyncGenerator<ChatChunk> {
  try {
    yield* builder.firstChunks()
    for (;;) {
      const next = await generation.next()
      if (next.done === true) break
      if (next.value.type !== 'delta') continue
      const chunks = builder.add(next.value)
      // before a client can have the end of it
      if (next.value.finishReason !== null) remember(next.value.choice)
      const found = next.value.finishReason === null ? null : await checkChoice(builder, next.value.choice, violations)
      yield* found === null ? chunks : chunks.map((chunk) => withViolations(chunk, found))
    }
    if (options.includeUsage) yield builder.usageChunk()
  } finally {
    await generation.return?.()
  }
}

/** They come with the end of the choice. */
function withViolations(chunk: ChatChunk, found: readonly string[]): ChatChunk {
  const choices = chunk.choices.map((choice) =>
    choice.finish_reason === null ? choice : { ...choice, [SCHEMA_VIOLATIONS]: [...found] },
  )
  return { ...chunk, choices }
}

/** Calls that nobody reads would be handed out as text. */
function checkToolsAreShown(format: AnswerFormat, { toolMode }: AnswerOptions): void {
  if (toolMode.kind !== 'auto' || format.toolFormat !== null) return
  throw new InvalidRequestError(
    'tools_not_supported',
    "the model's chat template shows no tools, or writes calls in a form that is not read: an answer would hold them as text",
    {
      param: 'tools',
      hint: 'set tool_choice to "required" or to one tool, which holds the answer to its schema, or to "none"; a server whose operator knows the form is told it by --tool-format',
    },
  )
}

/** @throws {InvalidRequestError} if the prompt is to be cut to more than the context holds */
export async function checkTruncation(
  engine: EngineProcess,
  command: Pick<EngineCommand, 'truncatePromptTokens' | 'sampling'>,
): Promise<void> {
  const wanted = command.truncatePromptTokens
  if (wanted === null || wanted === -1) return
  const { contextLength } = await engine.ready()
  const limit = contextLength - (command.sampling.maxTokens ?? 0)
  if (wanted <= limit) return
  throw new InvalidRequestError(
    'invalid_value',
    `truncate_prompt_tokens=${wanted} cannot be greater than max_model_len - max_completion_tokens = ${limit}. Please request a smaller truncation size.`,
    { param: 'truncate_prompt_tokens' },
  )
}

/** `<model id or base model>:step<n>:<digest of the adapter, or base-<digest of the base model>>`, safe in a header. */
export function checkpointOf(policy: Policy, baseDigest?: string): string {
  const name = policy.model?.id ?? policy.baseModel
  const base = baseDigest === undefined ? 'base' : `base-${baseDigest.slice(0, 16)}`
  return encodeURI(`${name}:step${policy.step}:${policy.adapter?.digest.slice(0, 16) ?? base}`)
}
