/**
 * The port and the application behind it. When this is done the server answers; nothing of it runs before the port is its own.
 */
import type { IncomingMessage } from 'node:http'
import { shuttingDown } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import { packageVersion } from '#base/util/package-root.js'
import { createAdmission } from '../http/admission.js'
import { createApp } from '../http/app.js'
import { type CutReason, UNREAD_MS } from '../http/connections/connections.js'
import { createStreamShares } from '../http/connections/stream-shares.js'
import type { App, AppOptions } from '../http/environment.js'
import { type Listening, listen } from '../http/listen.js'
import { createKeyQuestion } from '../http/middleware/auth.js'
import { createPublicAddress } from '../http/public-address.js'
import { ensureApiKey, type FirstKey, findLocalKey, isKeyFileLost } from '../operations/access/local-keys.js'
import type { PluginService } from '../plugin.js'
import { queueFull } from '../processes/engine-errors.js'
import type { DataDir } from '../storage/data-dir.js'
import { toStorageError } from '../storage/database.js'
import type { Jobs } from './jobs.js'
import { handlersLater, type StartedPlugins } from './plugins.js'
import type { Processes } from './processes.js'
import type { Start } from './start.js'
import type { Storage } from './storage.js'

export interface ServerInput {
  readonly dataDir: DataDir
  readonly storage: Pick<Storage, 'db' | 'ids' | 'bodies' | 'peers' | 'inTurn'>
  readonly processes: Pick<Processes, 'engines' | 'metrics'>
  readonly jobs: Pick<Jobs, 'dispatcher' | 'sessions'>
  readonly services: AppOptions['services']
  readonly context: PluginService['context']
  readonly started: StartedPlugins
  readonly witnesses: AppOptions['witnesses']
}

export interface Server {
  readonly app: App
  readonly url: string
  /** Where workers call it. */
  readonly workerUrl: string
  /** The key made by this start; null if there were keys. */
  readonly firstKey: FirstKey | null
  readonly isApiKeyLost: boolean
  /** For a browser: `Service.signInCode`. */
  signInCode(): Promise<string | null>
  /** Aborted when the server takes no more work. */
  readonly closing: AbortSignal
}

/** @throws {AppError} `port_in_use`, `cannot_listen` */
export async function startServer(start: Start, input: ServerInput): Promise<Server> {
  const { options, settings, logger, lifetimes } = start
  const {
    dataDir,
    storage,
    processes: { engines },
    jobs,
  } = input
  const { db, ids } = storage
  const closing = new AbortController()
  const publicAddress = createPublicAddress(settings, start.plugins.pathOf)
  const { app, handlers } = createServerApp(start, input, { publicAddress, closing: closing.signal })
  let firstKey: FirstKey | null = null
  let isApiKeyLost = false
  const limits = { ...settings, unreadMs: options.tuning?.unreadAnswerMs ?? UNREAD_MS }
  const onCut = (reason: CutReason, count: number): void => logger.warn({ reason, count }, 'http.connection_cut')
  const address = { host: settings.host, port: settings.port }
  const asksForKey = createKeyQuestion(start.plugins.table)
  const governed = {
    ...{ limits, onCut, senders: publicAddress },
    asksForKey: ({ method = '', url = '' }: IncomingMessage) =>
      asksForKey(method, publicAddress.pathWithin(url.split('?')[0] ?? '')),
  }
  await Promise.all(handlers.map(({ isSoon, load }) => (isSoon ? load() : null)))
  const listening = await listen(app, { ...address, ...governed }, async () => {
    // Last of all that can fail: a start that is refused must not use up the one time the key is shown.
    firstKey = await storage.inTurn(() => ensureApiKey(db, dataDir, ids))
    // of several servers the one that made it has it
    isApiKeyLost = !storage.peers.isShared && (await isKeyFileLost(db, dataDir))
  })
  // the last part that starts, so that new work is refused from the moment at which the end begins; requests and jobs end side by side
  lifetimes.add('server', (deadlineMs) => {
    closing.abort()
    const atDeadline = (): void => engines.failRequests(shuttingDown())
    return Promise.all([jobs.dispatcher.stop(), jobs.sessions.stop(), listening.close(deadlineMs, atDeadline)])
  })
  if (isApiKeyLost) logger.warn({ api_key_file: dataDir.apiKeyPath }, 'api_key.file_lost')
  const workerUrl = workerUrlOf(listening, settings.host)
  async function signInCode(): Promise<string | null> {
    const key = await findLocalKey(db, dataDir)
    return key === null ? null : (await input.services.sessions.codeFor({ ...key, keyId: key.id })).code
  }
  return { app, signInCode, url: listening.url, workerUrl, firstKey, isApiKeyLost, closing: closing.signal }
}

function createServerApp(
  start: Start,
  input: ServerInput,
  { publicAddress, closing }: Pick<AppOptions, 'publicAddress' | 'closing'>,
): { readonly app: App; readonly handlers: AppOptions['plugins'] } {
  const { options, settings, logger, plugins } = start
  const {
    services,
    context,
    storage: { ids, bodies, peers },
    processes: { engines, metrics },
  } = input
  const app: AppOptions = {
    table: plugins.table,
    errorForms: plugins.errorForms,
    witnesses: input.witnesses,
    plugins: handlersLater(plugins, input.started, () => ({ context, app })),
    services,
    logger,
    clock: systemClock,
    ids,
    version: packageVersion(),
    allowedHosts: [...settings.allowedHosts, ...(options.host === undefined ? [] : [options.host])],
    allowedOrigins: settings.allowedOrigins,
    publicAddress,
    metrics,
    home: plugins.home?.path ?? null,
    isEngineAlive: () => engines.started().every((engine) => engine.pid() !== null),
    // one that names another base model is counted with it
    admission: createAdmission(() => settings.maxPendingRequests * Math.max(1, engines.started().length), queueFull),
    eventStreams: createStreamShares(settings.maxEventStreams),
    bodies,
    limits: settings,
    countServers: peers.count,
    closing,
    translateError: toStorageError,
  }
  return { app: createApp(app), handlers: app.plugins }
}

/** Workers run on this machine: they call loopback, whatever address the server is bound to. */
function workerUrlOf(listening: Listening, host: string): string {
  const isAny = host === '0.0.0.0' || host === '::'
  return isAny ? `http://127.0.0.1:${listening.port}` : listening.url
}
