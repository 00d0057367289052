/**
 * Plugins → what the parts of a service are started with: one table, one list of bodies, handlers that are loaded later.
 */
import type { EntryPoint } from '#base/processes/entry.js'
import { createEndpointTable, type EndpointTable, type Key } from '#contract/endpoints/table.js'
import { type BodyFinder, createBodyFinder } from '../bodies/bodies.js'
import type { ErrorForm, LoadedLater } from '../http/environment.js'
import type { Tenant } from '../operations/context.js'
import {
  type Installed,
  loadSchemaParts,
  type Plugin,
  type PluginEndpoints,
  type PluginService,
  type PluginStart,
} from '../plugin.js'
import type { DatabaseHandle } from '../storage/database.js'
import type { SchemaPart } from '../storage/schema-part.js'

/** What is served, with the rows of all plugins. */
interface Served {
  readonly table: EndpointTable
  readonly bodyOf: BodyFinder
}

export interface LoadedPlugins extends Served {
  readonly list: readonly LoadedPlugin[]
  /** What they add to the database. */
  readonly parts: readonly SchemaPart[]
  readonly errorForms: readonly ErrorForm[]
  readonly bodyThread: EntryPoint
}

/** What the `start` of each answered. */
export type StartedPlugins = ReadonlyMap<Plugin, unknown>

interface LoadedPlugin {
  readonly plugin: Plugin
  /** Of its endpoints. */
  readonly keys: readonly Key[]
}

export async function loadPlugins({ plugins, bodyThread }: Installed): Promise<LoadedPlugins> {
  const endpoints = await loadEndpoints(plugins)
  const list = plugins.map((plugin, i) => ({
    plugin,
    keys: endpoints[i]?.runs.flatMap(({ rows }) => Object.keys(rows) as Key[]) ?? [],
  }))
  const errorForms = endpoints.flatMap(({ errors }) => errors ?? [])
  return { list, bodyThread, errorForms, ...servedBy(endpoints), parts: await loadSchemaParts(plugins) }
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
  return { table, bodyOf: createBodyFinder(table, stored) }
}

/** Starts what plugins have that runs beside the service. @returns what each answered */
export async function startPlugins(
  { list }: Pick<LoadedPlugins, 'list'>,
  core: Omit<PluginStart, 'tuning'>,
  tuning: Readonly<Record<string, object>> = {},
): Promise<StartedPlugins> {
  const started = new Map<Plugin, unknown>()
  for (const { plugin } of list) started.set(plugin, await plugin.start?.({ ...core, tuning: tuning[plugin.name] }))
  return started
}

/** Handlers of plugins; what could not be loaded is tried again by the next request. */
export function handlersLater(
  { list }: Pick<LoadedPlugins, 'list'>,
  started: StartedPlugins,
  service: () => Omit<PluginService, 'started'>,
): readonly LoadedLater[] {
  return list.flatMap(({ plugin, keys }) => {
    if (plugin.handlers === undefined) return []
    let loading: ReturnType<LoadedLater['load']> | null = null
    const load = async (): ReturnType<LoadedLater['load']> => {
      loading ??= plugin.handlers?.({ ...service(), started: started.get(plugin) }) ?? Promise.resolve({})
      try {
        return await loading
      } catch (error) {
        loading = null
        throw error
      }
    }
    return [{ keys, load }]
  })
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
