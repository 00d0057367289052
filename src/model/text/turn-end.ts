/**
 * The token that a chat template writes right behind an assistant's content. It ends an answer, whatever the model's files say of
 * ends: base models that are given a chat template often name `<|endoftext|>` alone, and an answer would run to its limit. llama.cpp
 * ends there by a list of known names; here the template itself is asked.
 */
import { AppError } from '#base/errors/errors.js'
import type { ChatTemplate } from './chat-template.js'
import type { Tokenizer } from './tokenizer.js'

const ANSWER = 'Yes, that is right.'
const MESSAGES = [
  { role: 'user', content: 'Is it?' },
  { role: 'assistant', content: ANSWER },
]

/** Null when the template writes no special token there, or refuses a plain conversation. */
export function turnEndOf(
  template: ChatTemplate,
  { specialTokens, tokenToId }: Pick<Tokenizer, 'specialTokens' | 'tokenToId'>,
): number | null {
  const text = renderedTurn(template)
  const at = text.lastIndexOf(ANSWER)
  if (at < 0) return null
  const rest = text.slice(at + ANSWER.length).trimStart()
  const [longest] = specialTokens.filter((token) => rest.startsWith(token)).sort((a, b) => b.length - a.length)
  return longest === undefined ? null : tokenToId(longest)
}

/** The turn as the last one: what opens the next turn does not end this one. */
function renderedTurn(template: ChatTemplate): string {
  try {
    return template.render({ messages: MESSAGES, addGenerationPrompt: false }).text
  } catch (error) {
    if (error instanceof AppError) return ''
    throw error
  }
}
