/**
 * How a manifest is written. Apart from its types, which `plugin.ts` has: every command loads the manifests, and few need more.
 */
import type { PluginOptionRows } from '#contract/jobs/plugin-options.js'
import type { SettingRow } from '#contract/settings/setting.js'
import type { Plugin, PluginEndpoints, PluginManifest } from './plugin.js'

type Rows = Readonly<Record<string, SettingRow>>

/** Whose settings keep their types. */
type Defined<S> = Omit<Plugin, 'settings'> & { readonly settings?: S }

/** Checks a manifest. */
export function definePlugin<
  E extends PluginEndpoints,
  P = undefined,
  const S extends Rows = Record<never, never>,
  const O extends PluginOptionRows = Record<never, never>,
>(manifest: PluginManifest<E, P, S, O>): Defined<S> {
  return manifest as Defined<S>
}
