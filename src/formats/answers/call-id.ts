/**
 * What is known of a tool call besides its name: whether an answer of this service made it, and how arguments that are no JSON object stand
 * where only an object can.
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

/**
 * The one key of an object that stands for arguments which are none: its value is their text. Where a template goes through arguments one
 * by one, and in Anthropic's format, whose reference names it for this.
 */
export const INVALID_JSON = 'INVALID_JSON'
