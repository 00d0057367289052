/**
 * Text and tokens without generation, at the root as in vLLM and llama.cpp.
 */
import type { AppOptions } from '../../environment.js'
import { handlers } from '../../handlers.js'

export function tokenHandlers({ services: { tokens } }: AppOptions) {
  return handlers({
    'POST /tokenize': async ({ principal, body }) => tokens.tokenize(principal, await body()),
    'POST /detokenize': async ({ principal, body }) => tokens.detokenize(principal, await body()),
    'POST /apply-template': async ({ principal, body }) => tokens.applyTemplate(principal, await body()),
    'GET /tokenizer_info': ({ principal, query }) => tokens.describe(principal, query().model ?? null),
  })
}
