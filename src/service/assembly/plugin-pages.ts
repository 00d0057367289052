/**
 * Views of plugins for the web page: their modules, read at the start, under names that hold a digest of what they are.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { pluginInvalid } from '../check-plugin.js'
import type { ServedPage } from '../http/environment.js'
import type { Plugin } from '../plugin.js'

/** Longest module: it is held in memory. */
const MAX_BYTES = 4 * 1024 ** 2

/** @throws {AppError} `plugin_invalid` for a module that cannot be read */
export async function loadPages(plugins: readonly Plugin[]): Promise<readonly ServedPage[]> {
  return (await Promise.all(plugins.map(pagesOf))).flat()
}

async function pagesOf({ name, pages = [] }: Plugin): Promise<readonly ServedPage[]> {
  return await Promise.all(
    pages.map(async ({ pattern, section, module }, at) => {
      const bytes = await readFile(module).catch((cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause)
        throw pluginInvalid(name, `the module of its page "${section}" cannot be read: ${reason}`)
      })
      if (bytes.length > MAX_BYTES) {
        throw pluginInvalid(
          name,
          `the module of its page "${section}" has ${bytes.length} bytes, at most ${MAX_BYTES} are served`,
        )
      }
      const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase()
      return { plugin: name, pattern: `/x/${name}${pattern}`, section, module: `x/${name}-${at}-${digest}.js`, bytes }
    }),
  )
}
