/**
 * Commands to copy, made of data. A model is named by whoever creates it: in a command that another person runs its name is one word,
 * and never a command of its own.
 */

/** A word that a POSIX shell reads back unchanged. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** A tag of templates: each value becomes one word, a list one word each. */
export function command(
  parts: TemplateStringsArray,
  ...values: readonly (string | number | readonly string[])[]
): string {
  const words = values.map((value) =>
    Array.isArray(value) ? value.map(quoteWord).join(' ') : quoteWord(String(value)),
  )
  return parts.map((part, i) => part + (words[i] ?? '')).join('')
}
