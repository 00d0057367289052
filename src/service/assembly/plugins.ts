/**
 * Plugins → what the parts of a service are started with: one table, one list of bodies, handlers that are loaded later.
 */
import type { EntryPoint } from '#base/processes/entry.js'
import { TAGS } from '#contract/endpoints/endpoint.js'
import { createEndpointTable, ENDPOINTS, type EndpointTable, type Key } from '#contract/endpoints/table.js'
import { addLossesOf } from '#contract/jobs/losses.js'
import { addJobOptions } from '#contract/jobs/plugin-options.js'
import { createBodyFinder, type KnownBodies } from '../bodies/bodies.js'
import { checkHandlers, checkTogether } from '../check-plugin.js'
import type { ErrorForm, LoadedLater } from '../http/environment.js'
import type { Tenant } from '../operations/context.js'
import type { OpenExporter } from '../operations/models/exporter.js'
import {
  type AddressKinds,
  addressKindsOf,
  type Home,
  type Installed,
  loadSchemaParts,
  type Plugin,
  type PluginEndpoints,
  type PluginService,
  type PluginStart,
} from '../plugin.js'
import { type GivenSettings, resolvePluginSettings, type SettingsByPlugin } from '../plugin-settings.js'
import type { JoinPeers } from '../queue/peers.js'
import type { DatabaseHandle } from '../storage/database.js'
import type { SchemaPart } from '../storage/schema-part.js'

/** What is served, with the rows of all plugins. */
interface Served extends KnownBodies {
  readonly table: EndpointTable
  /** The path of an endpoint, of any of its addresses. */
  pathOf(address: string): string
}

export interface LoadedPlugins extends Served, AddressKinds {
  readonly list: readonly LoadedPlugin[]
  /** What they add to the database. */
  readonly parts: readonly SchemaPart[]
  /** Joins servers on one database; null: this one works alone. */
  readonly joinPeers: JoinPeers | null
  /** Makes and reads files of other programs; null: they are refused. */
  readonly exporter: OpenExporter | null
  readonly errorForms: readonly ErrorForm[]
  /** What browsers are shown; null: nothing. */
  readonly home: Home | null
  readonly bodyThread: EntryPoint
  readonly files: readonly string[]
  readonly settings: SettingsByPlugin
}

/** What the `start` of each answered. */
export type StartedPlugins = ReadonlyMap<Plugin, unknown>

interface LoadedPlugin {
  readonly plugin: Plugin
  /** Of its endpoints. */
  readonly keys: readonly Key[]
}

/**
 * @throws {AppError} `plugin_invalid`, `invalid_setting`
 */
export async function loadPlugins(
  { plugins, bodyThread, files = [] }: Installed,
  options: GivenSettings = {},
): Promise<LoadedPlugins> {
  addJobOptions(plugins)
  await addLossesOf(plugins)
  const endpoints = await loadEndpoints(plugins)
  checkTogether(plugins, endpoints, { endpoints: ENDPOINTS, sections: TAGS })
  const list = plugins.map((plugin, i) => ({
    plugin,
    keys: endpoints[i]?.runs.flatMap(({ rows }) => Object.keys(rows) as Key[]) ?? [],
  }))
  const errorForms = endpoints.flatMap(({ errors }) => errors ?? [])
  const settings = resolvePluginSettings(plugins, options)
  const parts = await loadSchemaParts(plugins)
  const kinds = addressKindsOf(plugins)
  const joinPeers = plugins.find(({ peers }) => peers !== undefined)?.peers ?? null
  const home = servedHome(plugins, settings)
  const exporter = plugins.find((each) => each.exporter !== undefined)?.exporter ?? null
  const served = servedBy(endpoints)
  return { list, settings, bodyThread, files, errorForms, ...served, parts, ...kinds, joinPeers, exporter, home }
}

/** The endpoints and bodies of a service with these plugins. */
export async function loadServed(plugins: readonly Plugin[]): Promise<Served> {
  return servedBy(await loadEndpoints(plugins))
}

function loadEndpoints(plugins: readonly Plugin[]): Promise<readonly PluginEndpoints[]> {
  return Promise.all(plugins.map(async (plugin) => (await plugin.endpoints?.()) ?? { runs: [] }))
}

function servedBy(endpoints: readonly PluginEndpoints[]): Served {
  const table = createEndpointTable(
    endpoints.flatMap(({ runs }) => runs),
    endpoints.flatMap(({ sections = [] }) => sections),
  )
  const stored = endpoints.flatMap((each) => each.stored ?? [])
  const binary = endpoints.flatMap((each) => each.binary ?? [])
  const pathOf = (address: string) => endpoints.reduce((path, { aliasOf }) => aliasOf?.(path) ?? path, address)
  return { table, bodyOf: createBodyFinder(table, stored), binary, pathOf }
}

/** Starts what plugins have that runs beside the service. @returns what each answered */
export async function startPlugins(
  { list, settings }: Pick<LoadedPlugins, 'list' | 'settings'>,
  core: Omit<PluginStart, 'tuning' | 'settings' | 'pages'>,
  tuning: Readonly<Record<string, object>> = {},
): Promise<StartedPlugins> {
  const started = new Map<Plugin, unknown>()
  const pages = list.flatMap(({ plugin }) => (plugin.pages ?? []).map((row) => ({ ...row, plugin: plugin.name })))
  for (const { plugin } of list) {
    const own = { tuning: tuning[plugin.name], settings: settings.get(plugin.name) ?? {}, pages }
    started.set(plugin, await plugin.start?.({ ...core, ...own }))
  }
  return started
}

function servedHome(plugins: readonly Plugin[], settings: SettingsByPlugin): Home | null {
  const found = plugins.find(({ name, home }) => home?.isServed(settings.get(name) ?? {}) === true)
  return found?.home ?? null
}

/** Handlers of plugins; what could not be loaded is tried again by the next request. */
export function handlersLater(
  { list, settings }: Pick<LoadedPlugins, 'list' | 'settings'>,
  started: StartedPlugins,
  service: () => Omit<PluginService, 'started' | 'settings'>,
): readonly LoadedLater[] {
  return list.flatMap(({ plugin, keys }) => {
    if (plugin.handlers === undefined) return []
    let loading: ReturnType<LoadedLater['load']> | null = null
    const load = async (): ReturnType<LoadedLater['load']> => {
      const own = { started: started.get(plugin), settings: settings.get(plugin.name) ?? {} }
      loading ??= plugin.handlers?.({ ...service(), ...own }) ?? Promise.resolve({})
      try {
        const handlers = await loading
        checkHandlers(plugin.name, keys, handlers)
        return handlers
      } catch (error) {
        loading = null
        throw error
      }
    }
    return [{ keys, load, isSoon: plugin.isForeign === true }]
  })
}

/** Who tries accelerators. */
export function acceleratorsOf({ list }: Pick<LoadedPlugins, 'list'>): NonNullable<Plugin['accelerators']> {
  return list.flatMap(({ plugin }) => plugin.accelerators ?? [])
}

/** What the first plugin that knows the artifact says. */
export async function findArtifactRows(
  { list }: Pick<LoadedPlugins, 'list'>,
  db: DatabaseHandle,
  { tenant, artifact }: { readonly tenant: Tenant; readonly artifact: string },
): Promise<string | null> {
  for (const { plugin } of list) {
    const found = (await plugin.artifactRows?.(db, tenant, artifact)) ?? null
    if (found !== null) return found
  }
  return null
}
