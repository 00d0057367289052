/**
 * Views of plugins for the web page: their modules, read at the start, under names that hold a digest of what they are.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { PluginPage } from '#contract/wire/plugin-page.js'
import { pluginInvalid } from '#service/check-plugin.js'
import type { PluginStart } from '#service/plugin.js'

/** A view of a plugin, with its module. */
export interface ServedPage extends PluginPage {
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Longest module: it is held in memory. */
const MAX_BYTES = 4 * 1024 ** 2

/** @throws {AppError} `plugin_invalid` for a module that cannot be read */
export async function loadPages(rows: PluginStart['pages']): Promise<readonly ServedPage[]> {
  return await Promise.all(
    rows.map(async ({ plugin, pattern, section, module }, at) => {
      const bytes = await readFile(module).catch((cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause)
        throw pluginInvalid(plugin, `the module of its page "${section}" cannot be read: ${reason}`)
      })
      if (bytes.length > MAX_BYTES) {
        throw pluginInvalid(
          plugin,
          `the module of its page "${section}" has ${bytes.length} bytes, at most ${MAX_BYTES} are served`,
        )
      }
      const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase()
      return { plugin, pattern: `/x/${plugin}${pattern}`, section, module: `x/${plugin}-${at}-${digest}.js`, bytes }
    }),
  )
}
