/**
 * What a plugin is: a manifest that says what it adds, and how that is loaded. Manifests are small, since all of them are read
 * whenever one is asked for something; rows, tables and handlers behind them are loaded when somebody needs them.
 *
 * The core imports no plugin: whoever starts it hands the list over (`Installed`).
 */

import type { Logger } from '#base/logging/logger.js'
import type { EntryPoint } from '#base/processes/entry.js'
import type { IdSource } from '#base/util/ids.js'
import type { Lifetimes } from '#base/util/lifetimes.js'
import type { EndpointRun, Section } from '#contract/endpoints/table.js'
import type { AdvantageDefinition, LossDefinition } from '#contract/jobs/losses.js'
import type { PluginJobOptions, PluginOptionRows } from '#contract/jobs/plugin-options.js'
import type { Accelerator, DeviceProof } from '#contract/processes/device-proof.js'
import type { TrainerRow } from '#contract/processes/trainers.js'
import type { SettingRow, SettingValue } from '#contract/settings/setting.js'
import type { BinaryBody, StoredBody } from './bodies/bodies.js'
import type { AppOptions, BoundHandler, ErrorForm, RequestContext, Witness } from './http/environment.js'
import type { HandlersOf } from './http/handlers.js'
import type { Principal, Tenant } from './operations/access/principal.js'
import type { ServiceContext } from './operations/context.js'
import type { OpenExporter } from './operations/models/exporter.js'
import type { ResolvedSettings } from './options.js'
import type { JoinPeers, Peers } from './queue/peers.js'
import type { WorkerKind, WorkerSupply } from './queue/unclaimable.js'
import type { BlobStoreKind } from './storage/blobs/remote-blobs.js'
import type { DatabaseHandle } from './storage/database.js'
import type { DatabaseKind } from './storage/remote-database.js'
import type { SchemaPart } from './storage/schema-part.js'

/** What a plugin serves: rows as the core's own (`contract/endpoints/endpoint.ts`). */
export interface PluginEndpoints {
  readonly runs: readonly EndpointRun[]
  readonly sections?: readonly Section[]
  /** How errors of its paths are answered, where their format is not ours. */
  readonly errors?: ErrorForm
  /** JSON that is stored as a file before it is read. */
  readonly stored?: readonly StoredBody[]
  /** Bodies of other media types of which something is read while they come in. */
  readonly binary?: readonly BinaryBody[]
  /** Another address of an endpoint → its path; what it does not know it answers as it is. Keys and limits are the endpoint's. */
  readonly aliasOf?: (path: string) => string
}

type SettingRows = Readonly<Record<string, SettingRow>>
/** Values of settings, by the names of their rows. */
type ValuesOf<S extends SettingRows> = { readonly [Name in keyof S]: SettingValue<S[Name]> }

/** A service that starts, as a plugin finds it. */
export interface PluginStart<S extends SettingRows = SettingRows> {
  /** What operations work with. */
  readonly context: ServiceContext
  /** What runs is added here as soon as it does, with its end. */
  readonly lifetimes: Pick<Lifetimes, 'add'>
  /** Times and limits that only tests change; the plugin knows which. */
  readonly tuning: object | undefined
  /** The plugin's own, and those of plugins that it needs. */
  readonly settings: ValuesOf<S>
  readonly serviceSettings: ResolvedSettings
  /** Views of the web page that plugins have. */
  readonly pages: readonly (PluginPageRow & { readonly plugin: string })[]
  /** Whether no other server works with the database. */
  readonly isAlone: boolean
  /** What `GET /metrics` says. */
  readonly metrics: Pick<AppOptions['metrics'], 'addGauge'>
  /** Hears how requests are answered, from the first on. */
  addWitness(witness: Witness): void
  /** Does what one server at a time does. @returns null, with nothing done, while another does it */
  readonly onDuty: Peers['onDuty']
  /**
   * Asks this server's own API for somebody, whose key is not at hand, within its limits; from `onListening` on.
   *
   * @param onBehalf the request that is answered by it: its client is who reads the answer, or goes away
   */
  ask(principal: Principal, request: Request, onBehalf?: RequestContext): Promise<Response>
  /**
   * What runs by itself begins when the port is this server's.
   *
   * @param begin is told where processes of this machine find it, and gets a signal that is aborted when it takes no more work
   */
  onListening(begin: (serverUrl: string, closing: AbortSignal) => void): void
}

/** A running service, as handlers of a plugin find it. */
export interface PluginService<P = unknown, S extends SettingRows = SettingRows> {
  /** The plugin's own, and those of plugins that it needs. */
  readonly settings: ValuesOf<S>
  /** What the plugin's `start` answered. */
  readonly started: P
  /** What operations work with. */
  readonly context: ServiceContext
  /** What handlers of the core work with: its operations, and what there is of HTTP. */
  readonly app: AppOptions
}

/** A handler for each row. */
export type PluginHandlers<E extends PluginEndpoints> = HandlersOf<Intersection<E['runs'][number]['rows']>>

type Intersection<U> = (U extends unknown ? (each: U) => void : never) extends (all: infer I) => void ? I : never

/** A line of the table of commands. */
interface CommandRow {
  /** `webhooks list`. */
  readonly path: string
  /** As the command's own. */
  readonly summary: string
  /** Group of the short help that shows it; default only `help all` does. */
  readonly group?: 'begin' | 'train' | 'use'
  /** Not listed: what it shows stands elsewhere as well. */
  readonly isHidden?: boolean
  /** Has options of jobs, among which are then those that plugins contribute. */
  readonly sendsJobs?: boolean
  /** @returns a command of `cli/command/define-command.ts`, which the service knows nothing of */
  load(): Promise<object>
}

/** What a plugin adds to a command of the core. */
interface CommandPartRow {
  /** `train rl`. */
  readonly of: string
  /** @returns a part of `cli/command/extend-command.ts` */
  load(): Promise<object>
}

/** A worker of another machine: what it is called, and what it can take. */
type NamedWorker = WorkerKind & { readonly name: string }

/** A service that starts, as a place finds it that is to get workers. */
export interface SupplyStart {
  /** What was set: an address of the place's protocol. */
  readonly address: string
  readonly publicUrl: string | null
  /** What this process was started with. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly logger: Logger
  readonly ids: Pick<IdSource, 'uuid'>
  /** What runs is added here as soon as it does, with its end. */
  readonly lifetimes: Pick<Lifetimes, 'add'>
  /** Of the plugin. */
  readonly tuning: object | undefined
  readonly queue: SuppliedQueue
}

/** The queue as a supply of workers sees it. */
export interface SuppliedQueue {
  /**
   * How many workers of the supply would have something to do, beside the workers of this machine and others.
   *
   * @param isOwn whether a worker of another machine is one of the supply's
   */
  wanted(isOwn: (worker: { readonly name: string }) => boolean): Promise<number>
  /** Workers of other machines that wait, train, or were heard of lately. */
  workers(): readonly NamedWorker[]
  /** See `Claims.workersEnded` of `queue/dispatcher.ts`. */
  workersEnded(name: string, reason: string): Promise<boolean>
  /** One of several servers has it for as long as it lives. */
  lastingDuty: Peers['lastingDuty']
}

/** Places that workers are started at. */
interface SupplyRow {
  /** Of addresses: `ssh:`. */
  readonly protocol: string
  /** What an address is of, for people. */
  readonly place: string
  /** An address, for people. */
  readonly example: string
  /** Reads the address; nothing is sent until `start`. */
  open(core: SupplyStart): Promise<WorkerSupply & { start(): void }>
}

/** An accelerator that is compared with the CPU before a server computes on it. */
interface AcceleratorRow {
  /** As `--device` names it. */
  readonly name: Accelerator
  /** @param environment of the process that tries it @returns also where that process died; it never rejects */
  prove(environment: Readonly<Record<string, string | undefined>>): Promise<DeviceProof>
}

/** What browsers are shown. */
export interface Home<V = unknown> {
  /** Below the server's address, with a slash at both ends. */
  readonly path: string
  isServed(settings: V): boolean
  /** Whether this package holds it. */
  isBuilt(): Promise<boolean>
}

/** A view of the web page. */
export interface PluginPageRow {
  /** Address on the page, below `/x/` and the plugin's name: empty, or as `/scores/:id`. */
  readonly pattern: string
  /** Entry of the navigation, and its heading. */
  readonly section: string
  /** A file beside the manifest's, seen from `import.meta.url`: it imports nothing and exports `mount` (`PluginModule`). */
  readonly module: URL
}

/** What a plugin adds; it leaves out what it does not add. */
export interface PluginManifest<E extends PluginEndpoints, P, S extends SettingRows, O extends PluginOptionRows> {
  /** As its folder is called. */
  readonly name: string
  /** Names of plugins without which it does nothing: a start without one of them is refused. */
  readonly needs?: readonly string[]
  /** Commands that stand together in help, behind one of the core; each is loaded when it is called. */
  readonly commands?: { readonly after: string; readonly rows: readonly CommandRow[] }
  /** Flags and what runs with them, of commands of the core. */
  readonly commandParts?: readonly CommandPartRow[]
  /** Rows as `contract/settings` has them: flags of `serve`, variables, keys of the configuration file. */
  readonly settings?: S
  /** Rows as `contract/jobs` has them, with what they do in the training worker. */
  readonly jobOptions?: PluginJobOptions<O>
  /** Losses that jobs may name, as short functions (`contract/jobs/losses.ts`); loaded where options of jobs are read. */
  losses?(): Promise<readonly LossDefinition[]>
  /** The same of advantages. */
  advantages?(): Promise<readonly AdvantageDefinition[]>
  /** Views of the web page, each a module that a browser loads when it is opened. */
  readonly pages?: readonly PluginPageRow[]
  /** Where a browser goes that asks for `/`, and that signs in by a code. One plugin at most has it. */
  readonly home?: Home<ValuesOf<S>>
  /** Loaded when a service starts: routes, scopes and the reference are made of the rows. */
  endpoints?(): Promise<E>
  /** Starts what runs beside the service; it is there before the port is. @returns what handlers are given of it */
  start?(core: PluginStart<S>): Promise<P>
  /** One for each row. Loaded when the first request for one of them comes. */
  handlers?(service: PluginService<P, S>): Promise<PluginHandlers<E>>
  /** Where rows may lie besides the data directory; what opens them is loaded when a setting names such an address. */
  readonly databases?: readonly DatabaseKind[]
  /** The same for blobs. */
  readonly blobStores?: readonly BlobStoreKind[]
  /** Accelerators that it can try, in the order in which `--device auto` does. */
  readonly accelerators?: readonly AcceleratorRow[]
  /** What computes gradients in place of ONNX Runtime: a worker loads the module for a job whose trainer it is. */
  readonly trainers?: readonly TrainerRow[]
  /** Entry points of its child processes, as paths below `src/`: each is a bundle of the package. */
  readonly processes?: readonly string[]
  /** Places that workers can be started at, as `--workers` names one. */
  readonly workerSupplies?: readonly SupplyRow[]
  /** Lets this server work beside others on one database; loaded when the settings allow others. One plugin at most has it. */
  readonly peers?: JoinPeers
  /** Files in forms of other programs; loaded by the first request for one. One plugin at most has it. */
  readonly exporter?: OpenExporter
  /** Loaded when a database is opened. */
  tables?(): Promise<SchemaPart>
  /**
   * Training data named `wandb-artifact:///entity/project/name:version` that is no registered file.
   *
   * @returns the digest of the blob with the rows; null if it knows no such artifact
   */
  artifactRows?(db: DatabaseHandle, tenant: Tenant, artifact: string): Promise<string | null>
}

/** Settings of plugins by the names of their rows, as the library's options have them. */
export type SettingsOf<P extends { readonly settings?: object }> = OptionsOf<Intersection<NonNullable<P['settings']>>>
type OptionsOf<S> = { readonly [Name in keyof S]?: S[Name] extends SettingRow ? SettingValue<S[Name]> : never }

/** A manifest whose handlers were checked against its rows. */
export interface Plugin
  extends Omit<PluginManifest<PluginEndpoints, unknown, SettingRows, PluginOptionRows>, 'handlers' | 'home'> {
  readonly home?: Home
  handlers?(service: PluginService): Promise<Readonly<Record<string, BoundHandler>>>
  /** No part of this package: its handlers are loaded at the start, so that what is wrong with them is found then. */
  readonly isForeign?: boolean
}

/** What is started beside the core. */
export interface Installed {
  readonly plugins: readonly Plugin[]
  /** Entry of the thread that reads large bodies, below `src/`: it knows the bodies of these plugins. */
  readonly bodyThread: EntryPoint
  /** Where those come from that are no part of this package: the thread loads them, too. */
  readonly files?: readonly string[]
}

/** What opens addresses. */
export interface AddressKinds {
  readonly databases: readonly DatabaseKind[]
  readonly blobStores: readonly BlobStoreKind[]
}

export function addressKindsOf(plugins: readonly Plugin[]): AddressKinds {
  return {
    databases: plugins.flatMap(({ databases = [] }) => databases),
    blobStores: plugins.flatMap(({ blobStores = [] }) => blobStores),
  }
}

/** What plugins add to the database. */
export async function loadSchemaParts(plugins: readonly Plugin[]): Promise<readonly SchemaPart[]> {
  return (await Promise.all(plugins.map(async (plugin) => (await plugin.tables?.()) ?? []))).flat()
}
