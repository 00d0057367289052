/**
 * Flags, hints and the "next page" command that all commands which list pages share.
 */

import type { Config } from '#cli/config/load.js'
import { quoteWord } from '#contract/wire/command-words.js'
import type { List } from '#contract/wire/list.js'
import type { Output } from '../terminal/output.js'
import { flag } from './flags.js'

/** `--limit`, `--after`, `--all`. */
export const pageFlags = {
  limit: flag.integer(1, 100)('--limit <n>', 'items per page, 1 to 100', { default: 20 }),
  after: flag.text('--after <id>', 'go on after this id'),
  all: flag.switch('--all', 'every page'),
  wide: flag.switch('--wide', 'ids in full on a terminal'),
}

/**
 * The project and the entity of this command line. Those of the environment and the config file are for models that are named
 * without one: a list shows everything unless it is asked for less.
 */
export function askedNamespace(config: Config): {
  readonly project: string | undefined
  readonly entity: string | undefined
} {
  const asked = (key: 'project' | 'entity') =>
    config.resolve(key).source === 'flag' ? (config.get(key) ?? undefined) : undefined
  return { project: asked('project'), entity: asked('entity') }
}

/**
 * Says that a list is not limited to the project that is configured: who set one may take the list for that project's.
 * For commands that show less when asked with `--project`.
 */
export function hintConfiguredProject(config: Config, output: Output): void {
  const project = config.resolve('project')
  if (project.source !== 'env' && project.source !== 'file') return
  const word = quoteWord(project.value)
  output.hint(`of every project, also beside ${word} (from ${project.origin}); --project ${word} shows that one`)
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
