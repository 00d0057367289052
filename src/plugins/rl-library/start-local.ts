/**
 * The service in the same program, for tests, notebooks and scripts that should need nothing else.
 *
 * The service is loaded only here and only when asked for: a program that talks to a server elsewhere never loads it.
 */
import { rmSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readEnvironment } from '#base/environment.js'
import { createLifetimes, type Lifetimes, startOrEnd } from '#base/util/lifetimes.js'
import { removeTree } from '#base/util/move-file.js'
import { type Client, createClient } from '#sdk/client/client.js'
import type { ServiceOptions } from '#service/create-service.js'

/** Options of the service; without `dataDir`, everything lives in a temporary folder and is gone after `close()`. */
export type LocalOptions = Partial<ServiceOptions>

export interface LocalService {
  /** For other clients: `http://127.0.0.1:<port>`. */
  readonly url: string
  readonly apiKey: string
  readonly client: Client
  /** Stops the service; a job that runs is ended. Nothing else lets the program end. */
  close(): Promise<void>
}

/** Time that running work has to end, milliseconds. */
const CLOSE_MS = 5000

/**
 * Starts the service on any free port of this machine; its hub is that of `HF_ENDPOINT` and `HF_TOKEN`, as of `trainyard serve`.
 *
 * @example
 * const local = await startLocal()
 * // … local.client …
 * await local.close()
 */
export async function startLocal(options: LocalOptions = {}): Promise<LocalService> {
  const { createService } = await import('#plugins/service.js')
  const lifetimes = createLifetimes()
  return startOrEnd(lifetimes, async () => {
    const dataDir = options.dataDir ?? (await makeTemporaryFolder(lifetimes))
    const { HF_ENDPOINT: endpoint, HF_TOKEN: token } = readEnvironment()
    const hub = { endpoint: endpoint || undefined, token: token || undefined }
    const service = await createService({ port: 0, logLevel: 'warn', hub, ...options, dataDir })
    lifetimes.add('service', (deadlineMs) => service.close(deadlineMs))
    const apiKey = service.createdApiKey ?? (await readFile(service.apiKeyFile, 'utf8')).trim()
    return {
      url: service.url,
      apiKey,
      client: createClient({ baseUrl: service.url, apiKey }),
      close: () => lifetimes.end(CLOSE_MS),
    }
  })
}

/** A folder that is gone when its lifetime ends. */
async function makeTemporaryFolder(lifetimes: Lifetimes): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-'))
  const removeAtExit = (): void => rmSync(folder, { recursive: true, force: true })
  // a program that ends without `close` leaves nothing either
  process.once('exit', removeAtExit)
  lifetimes.add('temporary folder', async () => {
    await removeTree(folder)
    process.off('exit', removeAtExit)
  })
  return folder
}
