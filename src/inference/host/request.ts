/**
 * A generate command and its tokens to an engine request: truncation, masks, adapter files.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isReasoningOpen } from '#formats/answers/answer-format.js'
import type { GenerationRequest } from '#inference/engine/generation.js'
import type { TokenMask } from '#inference/engine/sampling/token-mask.js'
import type { TextModel } from '#model/text/text-model.js'
import type { AdapterModule } from '#model/weights/adapter.js'
import { loadAdapter } from './adapters/load-adapter.js'
import { afterReasoning } from './answer-grammars.js'
import type { GenerateCommand } from './protocol.js'
import type { PreparedPrompt } from './text-work.js'
import { toRules } from './token-rules.js'

/** What the engine gets, and what the answer's text is read by. */
export interface HostRequest extends GenerationRequest {
  /** The prompt ends inside a reasoning block. */
  readonly isReasoningOpen: boolean
}

/** The most prompt tokens of interest: one that cannot fit is refused for its length, and needs no tokens to its end for that. */
export function maxPromptTokens(command: GenerateCommand, contextLength: number): number | undefined {
  return command.truncatePromptTokens === null ? contextLength : undefined
}

/**
 * What the engine is asked.
 *
 * @param prepared the command's prompt
 * @param createMask the mask of each choice, when the answer is held to a grammar
 * @throws {InvalidRequestError} if the truncation is out of range
 */
export function toGenerationRequest(
  command: GenerateCommand,
  prepared: PreparedPrompt,
  {
    textModel,
    contextLength,
    modules,
    createMask,
  }: {
    readonly textModel: TextModel
    /** What can be adapted in the base model. */
    readonly modules: readonly AdapterModule[]
    readonly contextLength: number
    readonly createMask: (() => TokenMask) | null
  },
): HostRequest {
  const { sampling, adapter, cacheSalt } = command
  const isOpen = isReasoningOpen(prepared.text)
  const isHeldLater = isOpen && createMask !== null
  const tokenMask = isHeldLater ? () => afterReasoning(createMask(), textModel.tokenizer) : createMask
  // the engine's last step of a prompt makes a token in any case; the listener drops it
  const rules = {
    ...toRules(sampling, textModel.tokenizer),
    maxTokens: sampling.maxTokens === 0 ? 1 : sampling.maxTokens,
  }
  return {
    id: command.id,
    isReasoningOpen: isOpen,
    promptTokenIds: truncated(prepared.tokenIds, command, contextLength),
    rules: tokenMask === null ? rules : { ...rules, tokenMask },
    adapter: adapter === null ? null : { digest: adapter.digest, load: () => loadAdapter(adapter, modules) },
    cacheSalt,
    priority: command.priority ?? 0,
    ...(command.keyId === undefined ? {} : { keyId: command.keyId }),
    ...(command.owner === undefined ? {} : { owner: command.owner }),
    words: { grammar: command.grammar, isAfterReasoning: isHeldLater, badWords: sampling.badWords ?? [] },
  }
}

/** The last k prompt tokens, as `truncate_prompt_tokens` asks. */
function truncated(tokenIds: readonly number[], command: GenerateCommand, contextLength: number): readonly number[] {
  const wanted = command.truncatePromptTokens
  if (wanted === null) return tokenIds
  const maxInput = contextLength - (command.sampling.maxTokens ?? 0)
  if (wanted > maxInput) {
    throw new InvalidRequestError(
      'invalid_value',
      `truncate_prompt_tokens=${wanted} cannot be greater than max_model_len - max_completion_tokens = ${maxInput}. ` +
        'Please request a smaller truncation size.',
      { param: 'truncate_prompt_tokens' },
    )
  }
  // Without a limit on the answer one position is left for it.
  const kept = wanted >= 0 ? wanted : Math.max(0, Math.min(maxInput, contextLength - 1))
  return kept >= tokenIds.length ? tokenIds : tokenIds.slice(tokenIds.length - kept)
}
