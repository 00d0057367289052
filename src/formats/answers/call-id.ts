/**
 * Ids of tool calls: those that an answer of this service makes can be told from others. Knows nothing of what a call holds.
 */

/** vLLM's, which the ids of its own answers begin with. */
const OWN_PREFIX = 'chatcmpl-tool-'

/** @param unique hexadecimal digits that no other call has */
export function callIdOf(unique: string): string {
  return OWN_PREFIX + unique
}

/** Whether a call comes out of an answer, and its arguments are the model's own text. */
export function isOwnCall(id: unknown): boolean {
  return typeof id === 'string' && id.startsWith(OWN_PREFIX)
}
