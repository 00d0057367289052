/**
 * How a manifest is written. Apart from its types, which `plugin.ts` has: every command loads the manifests, and few need more.
 */
import type { Plugin, PluginEndpoints, PluginManifest } from './plugin.js'

/** Checks a manifest. */
export function definePlugin<E extends PluginEndpoints, P = undefined>(manifest: PluginManifest<E, P>): Plugin {
  return manifest as Plugin
}
