/**
 * Makes text from a server or a model safe to show on a terminal, where control characters are commands.
 */

/**
 * Drops C0 and C1 control characters except newline and tab, and the Unicode direction overrides.
 *
 * Carriage returns, escapes and bells go too. Text for pipes and JSON is never passed through here.
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

function isUnsafe(code: number): boolean {
  if (code < 0x20) return code !== 0x0a && code !== 0x09
  if (code >= 0x7f && code <= 0x9f) return true
  // Direction overrides and isolates reorder what is shown (Trojan Source, CVE-2021-42574).
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)
}
