/**
 * Engine events → token ids with the log-probabilities of what they were drawn from, whole and as chunks. Knows neither engines
 * nor HTTP.
 *
 *     log q(a) = z_a / T − log of the sum over K of exp(z_k / T)       K: the tokens that could be drawn
 *
 * The engine tells log q of the token that was drawn and the raw log-softmax of the likeliest. Those of K stand below the same
 * sum, so their log q follows from one difference; the others could not be drawn and are left out. Where penalties or biases
 * moved scores, no difference tells it, and the token stands alone.
 */
import { appliedTemperature } from '#base/sampling-record.js'
import { append } from '#base/util/lists.js'
import type { Usage } from '#contract/wire/chat-completions.js'
import { toPromptLogprobs } from '#service/operations/generation/chat/chat-answer.js'
import {
  createRecorders,
  type RepeatedSampling,
  type SamplingRecorder,
} from '#service/operations/generation/chat/sampling-recorder.js'
import type { CompletionOptions } from '#service/operations/generation/completions/completion-request.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import type {
  GenerateChunk,
  GeneratedChoice,
  GeneratedPosition,
  GeneratedToken,
  GenerateResponse,
  LogprobsMode,
} from './wire.js'

type DeltaEvent = Extract<GenerationEvent, { type: 'delta' }>
type PositionLogprobs = DeltaEvent['logprobs'][number]
type DrawRecord = NonNullable<NonNullable<DeltaEvent['drawn']>[number]>
type PromptPosition = Extract<GenerationEvent, { type: 'prompt' }>['positions'][number]
type Identity = Pick<GenerateResponse, 'request_id' | 'model' | 'created' | 'output_mode' | 'logprobs_mode'>
type Options = Pick<CompletionOptions, 'n' | 'logprobs' | 'promptLogprobs' | 'isStream' | 'continuousUsage'> & {
  readonly hasPromptIds: boolean
}

interface ChoiceState {
  text: string
  readonly tokenIds: number[]
  readonly content: GeneratedPosition[]
  finishReason: string | null
  stopReason: string | number | null
  readonly recorder: SamplingRecorder
}

/** Collects the events of one answer. */
export interface AnswerBuilder {
  /** @returns the chunks that a stream sends for it */
  add(event: GenerationEvent): readonly GenerateChunk[]
  response(): GenerateResponse
  usageChunk(): GenerateChunk
}

export function createAnswerBuilder(
  { logprobs_mode: wanted, ...identity }: Identity,
  options: Options,
  sampling: RepeatedSampling,
): AnswerBuilder {
  const temperature = appliedTemperature(sampling.temperature)
  const choices = createRecorders(options.n, sampling, options).map(emptyChoice)
  const positions: PromptPosition[] = []
  let promptIds: readonly number[] = []
  let cachedTokens = 0
  let mode = wanted
  let isOpened = false

  function usage(): Usage {
    const completionTokens = choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0)
    return {
      prompt_tokens: promptIds.length,
      completion_tokens: completionTokens,
      total_tokens: promptIds.length + completionTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens },
    }
  }

  function contentOf({ logprobs, drawn }: DeltaEvent): GeneratedPosition[] {
    const draws = logprobs.map((_, t) => drawn?.[t] ?? null)
    // an engine elsewhere may tell those of the raw logits alone
    if (draws.some((draw) => draw !== null && draw.logprob === null)) mode = 'raw_logprobs'
    const shown = { mode, temperature, isText: identity.output_mode === 'text', count: options.logprobs ?? 0 }
    return logprobs.map((position, t) => toPosition(position, draws[t] ?? null, shown))
  }

  const withPromptIds = (): { prompt_token_ids?: number[] } =>
    options.hasPromptIds ? { prompt_token_ids: [...promptIds] } : {}

  function addDelta(event: DeltaEvent): readonly GenerateChunk[] {
    const state = choices[event.choice]
    if (state === undefined) return []
    const content = options.logprobs === null ? null : contentOf(event)
    const record = state.recorder.add(event)
    state.text += event.text
    append(state.tokenIds, event.tokenIds)
    if (event.finishReason !== null) {
      state.finishReason = event.finishReason
      state.stopReason = event.stopReason
    }
    if (!options.isStream) {
      if (content !== null) append(state.content, content)
      return []
    }
    if (event.tokenIds.length === 0 && event.text === '' && event.finishReason === null) return []
    const opening = isOpened ? {} : withPromptIds()
    isOpened = true
    const choice = {
      ...{ index: event.choice, token_ids: [...event.tokenIds], ...textOf(event) },
      ...{ finish_reason: event.finishReason, stop_reason: event.stopReason },
      logprobs: content === null ? null : { content },
      ...(record === undefined ? {} : { sampling: record }),
    }
    const counted = options.continuousUsage ? { usage: usage() } : {}
    return [{ ...identity, logprobs_mode: mode, ...opening, choices: [choice], ...counted }]
  }

  const textOf = ({ text }: { readonly text: string }) => (identity.output_mode === 'text' ? { text } : {})

  function toChoice(state: ChoiceState, index: number): GeneratedChoice {
    const record = state.recorder.whole()
    return {
      ...{ index, token_ids: state.tokenIds, ...textOf(state) },
      ...{ finish_reason: state.finishReason, stop_reason: state.stopReason },
      logprobs: options.logprobs === null ? null : { content: state.content },
      ...(record === undefined ? {} : { sampling: record }),
    }
  }

  return {
    add: (event) => {
      if (event.type === 'delta') return addDelta(event)
      if (event.type === 'prompt') append(positions, event.positions)
      else {
        promptIds = event.promptTokenIds
        cachedTokens = event.cachedTokens
      }
      return []
    },
    response: () => ({
      ...{ ...identity, logprobs_mode: mode, ...withPromptIds() },
      ...(options.promptLogprobs === null
        ? {}
        : { prompt_logprobs: toPromptLogprobs(positions, options.promptLogprobs) }),
      choices: choices.map(toChoice),
      usage: usage(),
    }),
    usageChunk: () => ({ ...identity, logprobs_mode: mode, choices: [], usage: usage() }),
  }
}

function emptyChoice(recorder: SamplingRecorder): ChoiceState {
  return { text: '', tokenIds: [], content: [], finishReason: null, stopReason: null, recorder }
}

interface Shown {
  readonly mode: LogprobsMode
  readonly temperature: number
  readonly isText: boolean
  /** Alternatives beside the token. */
  readonly count: number
}

function toPosition(position: PositionLogprobs, draw: DrawRecord | null, shown: Shown): GeneratedPosition {
  const { mode, temperature, isText, count } = shown
  const others = position.top.slice(0, count).filter(({ id }) => id !== position.id)
  const isProcessed = mode === 'processed_logprobs' && draw !== null && draw.logprob !== null
  const logprob = isProcessed ? (draw.logprob ?? position.logprob) : position.logprob
  // of the sum below which all of K stand
  const logTotal = position.logprob / (temperature || 1) - logprob
  const canFollow = !isProcessed || (draw.unmodelled.length === 0 && temperature > 0)
  const kept = isProcessed && draw.keptIds !== null ? new Set(draw.keptIds) : null
  const drawable = canFollow ? others.filter(({ id }) => kept?.has(id) !== false) : []
  const own = { ...tokenOf(position), logprob, rank: rankOf(position, count) }
  const alternatives = drawable.map((other) => ({
    ...tokenOf(other),
    logprob: isProcessed ? other.logprob / temperature - logTotal : other.logprob,
    rank: 1 + position.top.filter((better) => better.logprob > other.logprob).length,
  }))
  return { ...own, top_logprobs: [own, ...alternatives] }

  function tokenOf({
    id,
    text,
  }: {
    readonly id: number
    readonly text: string
  }): Pick<GeneratedToken, 'token' | 'token_id' | 'bytes'> {
    return { token: isText ? text : `token_id:${id}`, token_id: id, bytes: null }
  }
}

/** Null: less likely than all that were asked for. */
function rankOf({ logprob, top }: PositionLogprobs, count: number): number | null {
  const asked = top.slice(0, count)
  const better = asked.filter((other) => other.logprob > logprob).length
  return asked.length === 0 || better === asked.length ? null : better + 1
}
