/**
 * Makes text from a server or a model safe to show on a terminal, where control characters are commands.
 *
 * Knows nothing of streams: `output.ts` and `table.ts` pass every value through here, and the streams themselves (`io.ts`) let
 * nothing through that is not our own decoration.
 */

/**
 * Drops C0 and C1 control characters except newline and tab, and the Unicode direction overrides.
 *
 * Carriage returns, escapes and bells go too. A model's answer in a pipe and JSON are never passed through here.
 */
export function sanitizeForTerminal(text: string): string {
  let clean = ''
  let start = 0
  for (let i = 0; i < text.length; i += 1) {
    if (!isUnsafe(text.charCodeAt(i))) continue
    clean += text.slice(start, i)
    start = i + 1
  }
  return start === 0 ? text : clean + text.slice(start)
}

/** For one cell of a table or one line: line breaks and tabs become spaces. */
export function sanitizeLine(text: string): string {
  return sanitizeForTerminal(text.replace(/[\t\n\r\u2028\u2029]+/g, ' '))
}

/** What is left of a text that may be coloured and move the cursor as we do it: colours, up, erase below, to the line's begin. */
export function keepDecoration(text: string, hasColor: boolean): string {
  const own = hasColor ? COLORED : PLAIN
  return text
    .split(own)
    .map((part, i) => (i % 2 === 1 ? part : sanitizeForTerminal(part)))
    .join('')
}

/** JSON whose texts hold no control character: JSON itself escapes only the first 32. It reads back the same. */
export function escapeJson(json: string): string {
  return json.replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

const ESCAPE = String.fromCharCode(0x1b)
const COLORED = new RegExp(`(\r|${ESCAPE}\\[[\\d;]*m|${ESCAPE}\\[\\d*[AJ])`)
const PLAIN = new RegExp(`(\r|${ESCAPE}\\[\\d*[AJ])`)

function isUnsafe(code: number): boolean {
  if (code < 0x20) return code !== 0x0a && code !== 0x09
  if (code >= 0x7f && code <= 0x9f) return true
  // Direction overrides and isolates reorder what is shown (Trojan Source, CVE-2021-42574).
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)
}
