/**
 * Whether a sampled answer still says what its token ids spell: the ids train, so that a text that was edited beside them has no effect.
 *
 * A message is not a copy of the sampled text: reasoning and calls are taken out of it, stop strings and white space cut off,
 * control tokens left out. So its parts are looked for inside that text, and arguments of calls, which are written anew, are not.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

/** What ids spell. */
export interface IdText {
  textOf(ids: readonly number[]): string
  isControl(id: number): boolean
}

export function isSpelledBy(message: JsonObject, tokenIds: Int32Array, text: IdText): boolean {
  const said = saidParts(message).map(withoutSpace)
  if (said.every((part) => part === '')) return true
  const ids = Array.from(tokenIds)
  const isInside = (spelled: string): boolean => said.every((part) => spelled.includes(part))
  if (isInside(withoutSpace(text.textOf(ids)))) return true
  return isInside(withoutSpace(text.textOf(ids.filter((id) => !text.isControl(id)))))
}

function saidParts({ content, reasoning, reasoning_content: thought, tool_calls: calls }: JsonObject): string[] {
  const names = listOf(calls).flatMap((call) => {
    const callee = isJsonObject(call) ? call['function'] : null
    return isJsonObject(callee) ? [callee['name']] : []
  })
  const parts = Array.isArray(content)
    ? listOf(content).map((part) => (isJsonObject(part) ? part['text'] : part))
    : [content]
  // words around calls may come from several places of the text
  const words = names.length > 0 ? [] : parts
  return [...words, reasoning ?? thought, ...names].filter((part): part is string => typeof part === 'string')
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? (value as readonly JsonValue[]) : []
}

function withoutSpace(text: string): string {
  return text.replaceAll(/\s+/gu, '')
}
