/**
 * A request for samples, in the engine's words; what is not served is refused by name.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { SampleRequest } from '#contract/wire/training/training-loops.js'
import type { SamplingParameters } from '#service/processes/engine-process.js'
import { notServed } from './errors.js'

/** @throws {InvalidRequestError} `not_served` */
export function assertServed(request: SampleRequest): void {
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

export function promptOf({ prompt }: SampleRequest): number[] {
  return prompt.chunks.flatMap(({ type, tokens }, i) => {
    if (type === 'encoded_text' && tokens !== undefined) return tokens
    throw notServed(`prompt.chunks[${i}] of type "${type.slice(0, 40)}"`, 'prompts are encoded_text')
  })
}

export function toSampling(request: SampleRequest): SamplingParameters {
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
