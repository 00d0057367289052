/**
 * What the build of the page made (`browser/build.js`), below `dist/ui`.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packageRoot } from '#base/util/package-root.js'

/** What `dist/ui/manifest.json` says. */
export interface BuiltPage {
  readonly app: string
  readonly style: string
  /** The shared worker. */
  readonly feed: string
  /** The scripts of a first visit. */
  readonly first_load: readonly string[]
  readonly files: Readonly<Record<string, { readonly type: string }>>
}

/** Path of a file that the manifest names. */
export const builtFile = (name: string): string => join(packageRoot(), 'dist/ui', name)

/** Null where the page was not built. */
export async function readBuiltPage(): Promise<BuiltPage | null> {
  const text = await readFile(builtFile('manifest.json'), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as BuiltPage)
}

export async function isBuilt(): Promise<boolean> {
  return (await readBuiltPage()) !== null
}
