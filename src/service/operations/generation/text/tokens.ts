/**
 * Text and tokens of a model without generation, done by its engine host.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type {
  ApplyTemplateRequest,
  DetokenizeRequest,
  PromptResponse,
  TokenizeRequest,
  TokenizeResponse,
  TokenizerInfoResponse,
} from '#contract/wire/inference/tokens.js'
import { MAX_LISTED_TOKENS, type PromptInput } from '#inference/host/protocol.js'
import type { ChatRules, Principal, ServiceContext } from '../../context.js'
import { toConversation } from '../chat/chat-request.js'
import { type Policy, resolvePolicy } from '../chat/served-models.js'

export interface TokenService {
  tokenize(principal: Principal, request: TokenizeRequest): Promise<TokenizeResponse>
  detokenize(principal: Principal, request: DetokenizeRequest): Promise<PromptResponse>
  applyTemplate(principal: Principal, request: ApplyTemplateRequest): Promise<PromptResponse>
  /** @param model as in a chat request; null for the first base model */
  describe(principal: Principal, model: string | null): Promise<TokenizerInfoResponse>
}

export function createTokenService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'engines' | 'baseModels' | 'chatRules'>,
): TokenService {
  async function policyAndEngine(principal: Principal, model: string | null | undefined) {
    const policy = await resolvePolicy(context, principal, model ?? null)
    return { policy, engine: context.engines.engineOf(policy.baseModel) }
  }

  return {
    tokenize: async (principal, request) => {
      const { engine, policy } = await policyAndEngine(principal, request.model)
      const hasTokenStrings = request.return_token_strs === true
      const input = toInput(request, policy, context.chatRules)
      const task = { kind: 'tokenize', input, hasTokenStrings } as const
      const { tokenIds, tokenStrings } = await engine.text(context.ids.uuid(), task)
      const { contextLength } = await engine.ready()
      return {
        count: tokenIds.length,
        max_model_len: contextLength,
        tokens: [...tokenIds],
        token_strs: hasTokenStrings ? [...tokenStrings] : null,
      }
    },
    detokenize: async (principal, request) => {
      if (request.tokens.length > MAX_LISTED_TOKENS) {
        throw invalid('tokens', `tokens must have at most ${MAX_LISTED_TOKENS} ids, got ${request.tokens.length}.`)
      }
      const { engine } = await policyAndEngine(principal, request.model)
      const { vocabularySize } = await engine.ready()
      const foreign = request.tokens.find((id) => id >= vocabularySize)
      if (foreign !== undefined) {
        throw invalid('tokens', `token id ${foreign} is out of vocabulary. Vocabulary size: ${vocabularySize}`)
      }
      const { text } = await engine.text(context.ids.uuid(), { kind: 'detokenize', tokenIds: request.tokens })
      return { prompt: text }
    },
    applyTemplate: async (principal, request) => {
      const { engine, policy } = await policyAndEngine(principal, request.model)
      const { text } = await engine.text(context.ids.uuid(), {
        kind: 'render',
        input: toConversation(request, policy.templateKwargs, context.chatRules),
      })
      return { prompt: text }
    },
    describe: async (principal, model) => {
      const { engine } = await policyAndEngine(principal, model)
      const { tokenizer, vocabularySize, contextLength } = await engine.ready()
      return {
        model: engine.baseModel,
        bos_token: tokenizer.bosToken,
        eos_token: tokenizer.eosToken,
        vocab_size: vocabularySize,
        model_max_length: contextLength,
        chat_template: tokenizer.chatTemplate,
      }
    },
  }
}

function toInput(request: TokenizeRequest, policy: Pick<Policy, 'templateKwargs'>, rules: ChatRules): PromptInput {
  const { prompt = null, messages = null } = request
  if (messages !== null && prompt === null)
    return toConversation({ ...request, messages }, policy.templateKwargs, rules)
  if (prompt !== null && messages === null) {
    return { prompt: { text: prompt, addSpecialTokens: request.add_special_tokens ?? true } }
  }
  const given = prompt === null ? 'neither' : 'both'
  throw invalid('prompt', `either prompt or messages must be given, got ${given}.`)
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
