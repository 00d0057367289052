/**
 * What `JSON.parse` takes without a word and that changes the meaning of a row: a key that stands twice in one object, of which
 * the last wins, and half of a surrogate pair, which has no form in UTF-8. Expects valid JSON.
 */

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** The first key that stands twice in one object; null where none does. */
export function findDuplicateKey(text: string): string | null {
  const open: (Set<string> | null)[] = []
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i)
    if (code === 0x7b) open.push(new Set())
    else if (code === 0x5b) open.push(null)
    else if (code === 0x7d || code === 0x5d) open.pop()
    if (code !== QUOTE) continue
    const end = endOfString(text, i)
    if (isBeforeColon(text, end + 1)) {
      const raw = text.slice(i + 1, end)
      const key = raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw
      const keys = open.at(-1)
      if (keys?.has(key) === true) return key
      keys?.add(key)
    }
    i = end
  }
  return null
}

/** Whether a text is without half of a surrogate pair, written as an escape: bytes that spell one are no UTF-8. */
export function isWellFormedJson(text: string): boolean {
  if (!/\\u[dD][89abAB]/.test(text) && !/\\u[dD][c-fC-F]/.test(text)) return true
  // an escaped backslash before a u is no escape of a surrogate
  const escapes = text.replaceAll(/\\[^u]/g, '  ')
  return !/\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][\da-fA-F]{2})\\u[dD][c-fC-F]/.test(
    escapes,
  )
}

/** Where the quotation mark that ends a text stands. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let first = at
    while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1
    if ((at - first) % 2 === 0) return at
  }
  return text.length
}

function isBeforeColon(text: string, from: number): boolean {
  let at = from
  while (at < text.length && ' \t\r\n'.includes(text[at] as string)) at += 1
  return text[at] === ':'
}
