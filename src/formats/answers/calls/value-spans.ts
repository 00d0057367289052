/**
 * The values of an object as they stand in its JSON text, which parsing would lose. Knows valid JSON only.
 */

/** @param text of an object. @returns the text of each value by its key; of a key that occurs twice the last, which is the one that counts */
export function valueSpans(text: string): ReadonlyMap<string, string> {
  const spans = new Map<string, string>()
  let depth = 0
  let key: string | null = null
  let start = -1
  let lastString = ''
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (character === '"') {
      const end = closingQuote(text, i)
      if (depth === 1 && key === null) lastString = text.slice(i, end + 1)
      i = end
    } else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') depth--
    else if (character === ':' && depth === 1 && key === null) {
      key = JSON.parse(lastString) as string
      start = i + 1
      continue
    }
    const isEnd = (character === ',' && depth === 1) || (character === '}' && depth === 0)
    if (!isEnd || key === null) continue
    spans.set(key, text.slice(start, i).trim())
    key = null
  }
  return spans
}

function closingQuote(text: string, opening: number): number {
  for (let i = opening + 1; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === '"') return i
  }
  return text.length
}
