/**
 * What is asked of plugins before they are used: of those that are no part of this package names that nobody else has, of all
 * that they do not serve what is served.
 */
import { AppError } from '#base/errors/errors.js'
import type { Key } from '#contract/endpoints/table.js'
import { problemOfJobOptions } from '#contract/jobs/plugin-options.js'
import { KEY_SCOPES } from '#contract/wire/access/key-words.js'
import type { Plugin, PluginEndpoints, PluginPageRow } from './plugin.js'
import type { SchemaPart } from './storage/schema-part.js'

const MEMBERS: Readonly<Record<string, 'function' | 'object' | 'list'>> = {
  needs: 'object',
  commands: 'object',
  settings: 'object',
  jobOptions: 'object',
  losses: 'function',
  advantages: 'function',
  pages: 'object',
  home: 'object',
  endpoints: 'function',
  start: 'function',
  handlers: 'function',
  tables: 'function',
  peers: 'function',
  databases: 'list',
  blobStores: 'list',
  artifactRows: 'function',
  workerSupplies: 'object',
  accelerators: 'object',
  exporter: 'function',
}
const NAME = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/
const PATTERN = /^(?:\/:?[a-z][a-z0-9_-]*)*$/
const SCOPES: readonly string[] = [...KEY_SCOPES, 'open']
const KEY = /^(?:GET|POST|PUT|DELETE) \/\S+$/

export function pluginInvalid(name: string, message: string, hint?: string): AppError {
  return new AppError('invalid_request', 'plugin_invalid', `plugin "${name}": ${message}`, {
    hint: hint ?? 'the page "A plugin of your own" (/docs/plugins) has what a manifest may hold',
  })
}

/**
 * A manifest of somebody else, whose parts are checked when they are loaded.
 *
 * @param from what exports it
 * @throws {AppError} `plugin_invalid`
 */
export function checkForeign(value: unknown, from: string): Plugin {
  if (typeof value !== 'object' || value === null) {
    throw pluginInvalid(
      from,
      `expected an export "plugin", or a default one, made by definePlugin, got ${typeof value}`,
    )
  }
  const { name, ...members } = value as { readonly name?: unknown }
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw pluginInvalid(from, `its name must be of small letters, digits and hyphens, got ${JSON.stringify(name)}`)
  }
  for (const [member, content] of Object.entries(members)) {
    const expected = MEMBERS[member]
    if (expected === undefined) throw pluginInvalid(name, `unknown member "${member}"`)
    const isRight = expected === 'list' ? Array.isArray(content) : typeof content === expected
    if (!isRight) throw pluginInvalid(name, `"${member}" must be a ${expected}`)
  }
  const plugin = value as Plugin
  const problem = plugin.jobOptions === undefined ? null : problemOfJobOptions(name, plugin.jobOptions)
  if (problem !== null) throw pluginInvalid(name, problem)
  checkPages(plugin)
  const { needs = [] } = plugin
  if (!Array.isArray(needs) || needs.some((other) => typeof other !== 'string')) {
    throw pluginInvalid(name, '"needs" must be a list of names of plugins')
  }
  for (const { key } of Object.values(plugin.settings ?? {})) assertPrefix(name, `setting "${key}"`, key, `${name}-`)
  for (const { path } of plugin.commands?.rows ?? []) assertPrefix(name, `command "${path}"`, `${path} `, `${name} `)
  return {
    ...plugin,
    ...(plugin.endpoints === undefined ? {} : { endpoints: async () => checkEndpoints(plugin) }),
    ...(plugin.tables === undefined ? {} : { tables: async () => checkTables(plugin) }),
    isForeign: true,
  }
}

function checkPages({ name, pages = [] }: Plugin): void {
  if (!Array.isArray(pages)) throw pluginInvalid(name, '"pages" must be a list')
  const patterns = new Set<string>()
  for (const { pattern, section, module } of pages as readonly PluginPageRow[]) {
    if (typeof pattern !== 'string' || !PATTERN.test(pattern)) {
      throw pluginInvalid(
        name,
        `a page has the pattern ${JSON.stringify(pattern)}, expected "" or one as "/scores/:id"`,
      )
    }
    if (patterns.has(pattern)) throw pluginInvalid(name, `two pages have the pattern "${pattern}"`)
    patterns.add(pattern)
    if (typeof section !== 'string' || section === '' || section.length > 40) {
      throw pluginInvalid(
        name,
        `the page "${pattern}" needs a section, the entry of the navigation, of at most 40 characters`,
      )
    }
    if (module instanceof URL && module.protocol === 'file:') continue
    throw pluginInvalid(name, `the page "${section}" needs a module, as new URL('./page.js', import.meta.url)`)
  }
}

async function checkEndpoints(plugin: Plugin): Promise<PluginEndpoints> {
  const endpoints = (await plugin.endpoints?.()) ?? { runs: [] }
  if (plugin.handlers === undefined) throw pluginInvalid(plugin.name, 'it has endpoints and no handlers')
  for (const [key, { scope }] of endpoints.runs.flatMap(({ rows }) => Object.entries(rows))) {
    if (!KEY.test(key)) throw pluginInvalid(plugin.name, `endpoint "${key}" is no method with a path`)
    if (!SCOPES.includes(scope)) {
      throw pluginInvalid(plugin.name, `endpoint "${key}" has scope "${scope}", expected one of ${SCOPES.join(', ')}`)
    }
  }
  return endpoints
}

async function checkTables(plugin: Plugin): Promise<SchemaPart> {
  const part = await plugin.tables?.()
  if (part === undefined) throw pluginInvalid(plugin.name, 'tables() answered nothing')
  const prefix = plugin.name.replaceAll('-', '_')
  for (const table of Object.keys(part.tables)) {
    if (table !== prefix) assertPrefix(plugin.name, `table "${table}"`, table, `${prefix}_`)
  }
  for (const migration of Object.keys({ ...part.migrations, ...part.postgresMigrations })) {
    assertPrefix(plugin.name, `migration "${migration}"`, migration, `${plugin.name}/`)
  }
  return part
}

function assertPrefix(plugin: string, what: string, name: string, prefix: string): void {
  if (name.startsWith(prefix) && name.length > prefix.length - 1) return
  throw pluginInvalid(plugin, `${what} must begin with "${prefix.trim()}", so that it is nobody else's`)
}

/** @throws {AppError} `plugin_invalid` for an endpoint, a name or a place that cannot be had */
export function checkTogether(
  plugins: readonly Plugin[],
  endpoints: readonly PluginEndpoints[],
  core: { readonly endpoints: object; readonly sections: readonly string[] },
): void {
  const names = new Set<string>()
  const keys = new Set<string>(Object.keys(core.endpoints))
  const schemes = new Set<string>()
  const protocols = new Set<string>()
  for (const [i, plugin] of plugins.entries()) {
    const { name, needs = [], peers, exporter, databases = [], blobStores = [], workerSupplies = [] } = plugin
    if (names.has(name)) throw pluginInvalid(name, 'there is another of this name', 'give it another name')
    names.add(name)
    for (const scheme of [...databases, ...blobStores].flatMap((kind) => kind.schemes)) {
      if (schemes.has(scheme)) throw pluginInvalid(name, `addresses ${scheme}:// are opened already`, 'give it another')
      schemes.add(scheme)
    }
    if (peers !== undefined && plugins.some((other, j) => j < i && other.peers !== undefined)) {
      throw pluginInvalid(name, 'another plugin joins servers already')
    }
    if (exporter !== undefined && plugins.some((other, j) => j < i && other.exporter !== undefined)) {
      throw pluginInvalid(name, 'another plugin exports models already')
    }
    for (const { protocol } of workerSupplies) {
      if (protocols.has(protocol))
        throw pluginInvalid(name, `another plugin starts workers at addresses of "${protocol}"`)
      protocols.add(protocol)
    }
    const missing = needs.find((other) => !plugins.some((each) => each.name === other))
    if (missing !== undefined) {
      throw pluginInvalid(
        name,
        `it needs the plugin "${missing}", which is not loaded`,
        'name the file of that plugin, too',
      )
    }
    const { runs = [], sections = [] } = endpoints[i] ?? {}
    for (const { after } of sections) {
      if (!core.sections.includes(after)) throw pluginInvalid(name, `there is no section "${after}" to stand behind`)
    }
    for (const { after, rows } of runs) {
      if (!keys.has(after)) throw pluginInvalid(name, `there is no "${after}" to stand behind`)
      for (const key of Object.keys(rows)) {
        if (keys.has(key)) throw pluginInvalid(name, `endpoint "${key}" is served already`, 'give it another path')
        keys.add(key)
      }
    }
  }
}

/** @throws {AppError} `plugin_invalid` for a row without a function */
export function checkHandlers(name: string, keys: readonly Key[], handlers: Readonly<Record<string, unknown>>): void {
  const missing = keys.find((key) => typeof handlers[key] !== 'function')
  if (missing !== undefined) throw pluginInvalid(name, `endpoint "${missing}" has no handler`)
}
