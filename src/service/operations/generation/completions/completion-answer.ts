/**
 * Engine events → the choices of a completion, whole and as chunks. Knows nothing of engines or HTTP.
 */
import { append } from '#base/util/lists.js'
import type { Usage } from '#contract/wire/chat-completions.js'
import type {
  CompletionChoice,
  CompletionChunk,
  CompletionLogprobs,
  CompletionResponse,
} from '#contract/wire/inference/completions.js'
import type { DeltaEvent, PositionLogprobs, PromptPosition } from '#inference/host/protocol.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import { type AnswerIdentity, spelled, toPromptLogprobs } from '../chat/chat-answer.js'
import { createRecorders, type RepeatedSampling, type SamplingRecorder } from '../chat/sampling-recorder.js'
import type { CompletionOptions } from './completion-request.js'

/** JSON has no minus infinity; vLLM sends this instead. */
const LOWEST_LOGPROB = -9999

type Position = PositionLogprobs | PromptPosition

interface ChoiceState {
  text: string
  readonly tokenIds: number[]
  readonly positions: PositionLogprobs[]
  /** Where the next token begins, characters of the shown text. */
  offset: number
  isOpened: boolean
  finishReason: string | null
  stopReason: string | number | null
  readonly recorder: SamplingRecorder
}

interface PromptState {
  promptText: string
  promptTokenIds: readonly number[]
  cachedTokens: number
  readonly positions: PromptPosition[]
  readonly choices: readonly ChoiceState[]
}

/** Collects the events of one answer. */
export interface CompletionBuilder {
  /** One event of one prompt. @returns the chunks that a stream sends for it */
  add(prompt: number, event: GenerationEvent): readonly CompletionChunk[]
  response(): CompletionResponse
  usageChunk(): CompletionChunk
}

/** @param sampling what the engine was asked of each prompt */
export function createCompletionBuilder(
  identity: AnswerIdentity,
  options: CompletionOptions,
  { promptCount, sampling }: { readonly promptCount: number; readonly sampling: RepeatedSampling },
): CompletionBuilder {
  const recorders = createRecorders(promptCount * options.bestOf, sampling, options)
  const prompts = Array.from({ length: promptCount }, () => emptyPrompt(recorders.splice(0, options.bestOf)))

  function usage(): Usage {
    const promptTokens = sum(prompts.map(({ promptTokenIds }) => promptTokenIds.length))
    const completionTokens = sum(prompts.flatMap(({ choices }) => choices.map(({ tokenIds }) => tokenIds.length)))
    return {
      prompt_tokens: promptTokens,
      total_tokens: promptTokens + completionTokens,
      completion_tokens: completionTokens,
      prompt_tokens_details: { cached_tokens: sum(prompts.map(({ cachedTokens }) => cachedTokens)) },
    }
  }

  function chunkOf(choices: CompletionChunk['choices']): CompletionChunk {
    return {
      id: identity.id,
      object: 'text_completion',
      created: identity.createdSeconds,
      model: identity.model,
      system_fingerprint: identity.fingerprint,
      choices,
      ...(options.continuousUsage ? { usage: usage() } : {}),
    }
  }

  /** What stands before the first token of a choice, in its first chunk. */
  function opening(prompt: PromptState, state: ChoiceState): { text: string; positions: readonly Position[] } {
    if (state.isOpened) return { text: '', positions: [] }
    state.isOpened = true
    return options.isEchoed ? { text: prompt.promptText, positions: prompt.positions } : { text: '', positions: [] }
  }

  function addDelta(index: number, prompt: PromptState, event: DeltaEvent): readonly CompletionChunk[] {
    const state = prompt.choices[event.choice]
    if (state === undefined) return []
    const isFirst = !state.isOpened
    const { text, positions } = opening(prompt, state)
    state.text += event.text
    append(state.tokenIds, event.tokenIds)
    append(state.positions, event.logprobs)
    const sampling = state.recorder.add(event)
    if (event.finishReason !== null) {
      state.finishReason = event.finishReason
      state.stopReason = event.stopReason
    }
    if (!options.isStream) return []
    const shown = [...positions, ...event.logprobs]
    const logprobs = options.logprobs === null || shown.length === 0 ? null : toLogprobs(shown, state, options)
    const isSilent = text + event.text === '' && logprobs === null && event.finishReason === null
    if (isSilent && !(options.hasTokenIds && event.tokenIds.length > 0)) return []
    const ids = options.hasTokenIds
      ? { token_ids: [...event.tokenIds], ...(isFirst ? { prompt_token_ids: [...prompt.promptTokenIds] } : {}) }
      : {}
    const choice = {
      index: index * options.n + event.choice,
      text: text + event.text,
      logprobs,
      finish_reason: event.finishReason,
      stop_reason: event.stopReason,
      ...ids,
      ...(sampling === undefined ? {} : { sampling }),
    }
    return [chunkOf([choice])]
  }

  function toChoice(prompt: PromptState, state: ChoiceState, index: number): CompletionChoice {
    const { isEchoed, hasTokenIds } = options
    const record = state.recorder.whole()
    const positions: readonly Position[] = isEchoed ? [...prompt.positions, ...state.positions] : state.positions
    return {
      index,
      text: isEchoed ? prompt.promptText + state.text : state.text,
      logprobs: options.logprobs === null ? null : toLogprobs(positions, { offset: 0 }, options),
      finish_reason: state.finishReason,
      stop_reason: state.stopReason,
      token_ids: hasTokenIds ? state.tokenIds : null,
      prompt_token_ids: hasTokenIds ? [...prompt.promptTokenIds] : null,
      ...(record === undefined ? {} : { sampling: record }),
      prompt_logprobs:
        options.promptLogprobs === null ? null : toPromptLogprobs(prompt.positions, options.promptLogprobs),
    }
  }

  return {
    add: (index, event) => {
      const prompt = prompts[index]
      if (prompt === undefined) return []
      if (event.type === 'delta') return addDelta(index, prompt, event)
      if (event.type === 'prompt') append(prompt.positions, event.positions)
      else {
        prompt.promptTokenIds = event.promptTokenIds
        prompt.cachedTokens = event.cachedTokens
        prompt.promptText = event.promptText ?? ''
      }
      return []
    },
    response: () => ({
      id: identity.id,
      object: 'text_completion',
      created: identity.createdSeconds,
      model: identity.model,
      choices: prompts.flatMap((prompt, p) =>
        best(prompt.choices, options.n).map((state, c) => toChoice(prompt, state, p * options.n + c)),
      ),
      service_tier: null,
      system_fingerprint: identity.fingerprint,
      usage: usage(),
      kv_transfer_params: null,
    }),
    usageChunk: () => ({ ...chunkOf([]), usage: usage() }),
  }
}

function emptyPrompt(recorders: readonly SamplingRecorder[]): PromptState {
  return {
    promptText: '',
    promptTokenIds: [],
    cachedTokens: 0,
    positions: [],
    choices: recorders.map((recorder) => ({
      text: '',
      tokenIds: [],
      positions: [],
      offset: 0,
      isOpened: false,
      finishReason: null,
      stopReason: null,
      recorder,
    })),
  }
}

/** The `n` choices with the highest log-probability per token, as OpenAI defines `best_of`; all of them in their own order. */
function best(choices: readonly ChoiceState[], n: number): readonly ChoiceState[] {
  if (choices.length === n) return choices
  const mean = ({ positions }: ChoiceState): number =>
    positions.length === 0 ? Number.NEGATIVE_INFINITY : sum(positions.map(({ logprob }) => logprob)) / positions.length
  return [...choices].sort((a, b) => mean(b) - mean(a)).slice(0, n)
}

/** @param at where the first token begins; moved behind the last one */
function toLogprobs(
  positions: readonly Position[],
  at: { offset: number },
  options: Pick<CompletionOptions, 'logprobs' | 'isTokenAsId'>,
): CompletionLogprobs {
  const nameOf = ({ id, text }: { readonly id: number; readonly text: string }): string =>
    options.isTokenAsId ? `token_id:${id}` : text
  const result: CompletionLogprobs = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] }
  for (const position of positions) {
    const { logprob } = position
    result.tokens.push(nameOf(position))
    result.token_logprobs.push(logprob === null ? null : floor(logprob))
    result.text_offset.push(at.offset)
    if (!('isHidden' in position && position.isHidden)) at.offset += lengthOf(position.text)
    if (logprob === null) {
      result.top_logprobs.push(null)
      continue
    }
    const alternatives = new Map([[nameOf(position), floor(logprob)]])
    for (const token of position.top.slice(0, options.logprobs ?? 0)) {
      if (token.id === position.id) continue
      // an object has one value a key: a part of a character is named by its bytes, another token of the same text by its id
      const name = options.isTokenAsId ? nameOf(token) : namedByBytes(token)
      alternatives.set(alternatives.has(name) ? `token_id:${token.id}` : name, floor(token.logprob))
    }
    result.top_logprobs.push(Object.fromEntries(alternatives))
  }
  return result
}

/** The text of a token; of bytes that are none as OpenAI names them here, `bytes:\\xe2\\x80`. */
function namedByBytes(token: { readonly text: string; readonly bytes: readonly number[] }): string {
  const name = spelled(token)
  return name === token.text ? name : `bytes:${name}`
}

/** Characters as Python counts them. */
function lengthOf(text: string): number {
  let length = 0
  for (const _ of text) length++
  return length
}

function floor(logprob: number): number {
  return Math.max(LOWEST_LOGPROB, logprob)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
