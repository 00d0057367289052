/**
 * The alphabet of byte-level BPE: every byte has a printable character, so that a vocabulary can be written as text.
 *
 * Source: GPT-2's `bytes_to_unicode`: the 188 printable Latin-1 bytes stand for themselves, the other 68 bytes get
 * U+0100 and up in byte order.
 */

const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff)

/** The character of each byte, indexed by the byte. */
export const byteToCharacter: readonly string[] = (() => {
  let next = 0x100
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : next++))
})()

const characterToByte: ReadonlyMap<number, number> = new Map(
  byteToCharacter.map((character, byte) => [character.charCodeAt(0), byte]),
)

const encoder = new TextEncoder()

/**
 * The bytes that a byte-level token stands for.
 *
 * A token with a character outside the alphabet (an added token such as `<|im_end|>` with a space in it) stands for
 * its own UTF-8 bytes.
 */
export function byteLevelTokenBytes(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length)
  for (let i = 0; i < token.length; i++) {
    const byte = characterToByte.get(token.charCodeAt(i))
    if (byte === undefined) return encoder.encode(token)
    bytes[i] = byte
  }
  return bytes
}

/** Writes bytes in the byte-level alphabet, one character per byte. */
export function toByteLevelText(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += byteToCharacter[byte]
  return text
}
