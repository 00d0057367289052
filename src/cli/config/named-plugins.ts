/**
 * Which files of plugins a command line is told of, before any of it is parsed: what they add is part of what it may say. A flag
 * overrules the environment, that the configuration file, as for any setting.
 */
import { readFile } from 'node:fs/promises'
import type { Environment } from '#base/environment.js'
import { resolvePaths } from './paths.js'

const FLAG = '--plugin'

export async function pluginsNamed(argv: readonly string[], environment: Environment): Promise<readonly string[]> {
  const end = argv.indexOf('--')
  const words = end < 0 ? argv : argv.slice(0, end)
  const flags = words.flatMap((word, i) =>
    word === FLAG ? (words[i + 1] ?? []) : word.startsWith(`${FLAG}=`) ? word.slice(FLAG.length + 1) : [],
  )
  if (flags.length > 0) return flags
  const named = environment['TRAINYARD_PLUGINS'] ?? ''
  if (named !== '') return toList(named)
  try {
    const document: unknown = JSON.parse(await readFile(resolvePaths(environment).configFile, 'utf8'))
    const { plugins } = (document ?? {}) as { readonly plugins?: unknown }
    return Array.isArray(plugins) ? plugins.map(String) : typeof plugins === 'string' ? toList(plugins) : []
  } catch {
    // who reads the settings says what is wrong with the file
    return []
  }
}

function toList(text: string): readonly string[] {
  return text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')
}
