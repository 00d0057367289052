/**
 * The `decoder` of a `tokenizer.json`: what each token spells.
 *
 * Tokens are bytes here, whatever stands around them, so that text can be streamed; a decoder that needs its neighbours is refused.
 * Differs from the reference implementation: an added token spells its own text also where the byte-level alphabet would read it
 * otherwise, bytes that form no character are read one by one, and of several `▁` in the first token one is dropped, not all.
 */
import { TokenizerError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { asArray, asObject, asString } from './json-fields.js'
import type { TokenizerParts } from './tokenizer.js'
import { byteLevelTokenBytes } from './vocabulary/byte-level.js'
import { tokenByte } from './vocabulary/sentence-piece.js'

type Decoding = Pick<TokenizerParts, 'pieceBytes' | 'addedBytes' | 'dropsLeadingSpace'>

const utf8 = new TextEncoder()

/** @throws {TokenizerError} `unsupported_tokenizer`, `invalid_tokenizer_file` */
export function readDecoder(config: JsonValue | undefined): Decoding {
  const steps = config === undefined || config === null ? [] : decoderSteps(config)
  if (steps.length === 0) return SPACED
  const types = steps.map((step) => step['type']).filter((type) => type !== 'Fuse')
  if (types.includes('ByteLevel')) {
    if (types.length > 1) throw unsupported(`of ${types.join(', ')}`)
    return { pieceBytes: byteLevelTokenBytes, dropsLeadingSpace: false }
  }
  const rewrites = steps.flatMap((step, i) => rewriteOf(step, steps.slice(0, i)))
  const hasBytes = types.includes('ByteFallback')
  const spell = (token: string): string => rewrites.reduce((text, rewrite) => rewrite(text), token)
  return {
    pieceBytes: (token) => {
      const byte = hasBytes ? tokenByte(token) : null
      return byte === null ? utf8.encode(spell(token)) : Uint8Array.of(byte)
    },
    addedBytes: (token) => utf8.encode(spell(token)),
    dropsLeadingSpace: steps.some(dropsSpace),
  }
}

/** Without a decoder tokens are joined by spaces. */
const SPACED: Decoding = {
  pieceBytes: (token) => utf8.encode(` ${token}`),
  addedBytes: (token) => utf8.encode(` ${token}`),
  dropsLeadingSpace: true,
}

function decoderSteps(config: JsonValue): JsonObject[] {
  const decoder = asObject(config, 'decoder')
  if (decoder['type'] !== 'Sequence') return [decoder]
  return asArray(decoder['decoders'], 'decoder.decoders').flatMap(decoderSteps)
}

/** How a step rewrites the spelling of a token; none where it does something else. */
function rewriteOf(step: JsonObject, before: readonly JsonObject[]): ((text: string) => string)[] {
  const type = step['type']
  if (type === 'Metaspace') {
    const replacement = asString(step['replacement'] ?? '\u2581', 'decoder.replacement')
    return [(text) => text.replaceAll(replacement, ' ')]
  }
  if (type === 'Replace') {
    const pattern = asObject(step['pattern'] ?? {}, 'decoder.pattern')['String']
    if (typeof pattern !== 'string') throw unsupported('"Replace" with a regular expression')
    const content = asString(step['content'] ?? '', 'decoder.content')
    // behind Fuse it would see the whole text
    if (before.some((each) => each['type'] === 'Fuse')) throw unsupported('"Replace" behind "Fuse"')
    return [(text) => text.replaceAll(pattern, () => content)]
  }
  if (type === 'Strip') {
    const isFused = before.some((each) => each['type'] === 'Fuse')
    if (step['stop'] === 0 && step['start'] === 0) return []
    if (!isFused || step['content'] !== ' ' || step['start'] !== 1 || step['stop'] !== 0) {
      throw unsupported('"Strip" of anything but one space in front of the whole text')
    }
    return []
  }
  if (type === 'ByteFallback' || type === 'Fuse') return []
  throw unsupported(JSON.stringify(type ?? null))
}

function dropsSpace(step: JsonObject): boolean {
  if (step['type'] === 'Strip') return step['start'] === 1
  return step['type'] === 'Metaspace' && step['prepend_scheme'] !== 'never' && step['add_prefix_space'] !== false
}

function unsupported(what: string): TokenizerError {
  return new TokenizerError('unsupported_tokenizer', `tokenizer.json uses the decoder ${what}, which is not supported`)
}
