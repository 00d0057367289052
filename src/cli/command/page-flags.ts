/**
 * Flags and talk shared by every command that lists pages.
 */
import type { List } from '#api/wire/list.js'
import { flag } from './flags.js'

/** `--limit`, `--after`, `--all`. */
export const pageFlags = {
  limit: flag.integer(1, 100)('--limit <n>', 'items per page, 1 to 100', { default: 20 }),
  after: flag.text('--after <id>', 'go on after this id'),
  all: flag.switch('--all', 'every page'),
  wide: flag.switch('--wide', 'ids in full on a terminal'),
}

/** The exact command that shows the next page, or null when there is none. */
export function nextPageCommand(
  command: string,
  page: List<unknown>,
  options: Readonly<Record<string, string | number | undefined>>,
): string | null {
  if (!page.has_more) return null
  const words = Object.entries(options)
    .filter(([name, value]) => value !== undefined && !(name === '--limit' && value === 20))
    .map(([name, value]) => `${name} ${quoteWord(String(value))}`)
  return ['trainyard', command, ...words, `--after ${page.last_id}`].join(' ')
}

/** A word a POSIX shell reads back unchanged. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
