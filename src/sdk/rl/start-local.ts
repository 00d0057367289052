/**
 * The service in the same program, for tests, notebooks and scripts that should need nothing else.
 *
 * The service is loaded only here and only when asked for: a program that talks to a server elsewhere never loads it.
 */
import { rmSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
 * Starts the service on any free port of this machine.
 *
 * @example
 * const local = await startLocal()
 * // … local.client …
 * await local.close()
 */
export async function startLocal(options: LocalOptions = {}): Promise<LocalService> {
  const { createService } = await import('#service/create-service.js')
  const temporary = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'trainyard-')) : null
  const dataDir = options.dataDir ?? temporary ?? ''
  const removeAtExit = () => rmSync(dataDir, { recursive: true, force: true })
  // a program that ends without `close` leaves nothing either
  if (temporary !== null) process.once('exit', removeAtExit)
  const forget = async () => {
    if (temporary === null) return
    await rm(temporary, { recursive: true, force: true })
    process.off('exit', removeAtExit)
  }
  try {
    const service = await createService({ port: 0, logLevel: 'warn', ...options, dataDir })
    const apiKey = service.createdApiKey ?? (await readFile(service.apiKeyFile, 'utf8')).trim()
    return {
      url: service.url,
      apiKey,
      client: createClient({ baseUrl: service.url, apiKey }),
      async close() {
        await service.close(CLOSE_MS)
        await forget()
      },
    }
  } catch (error) {
    await forget()
    throw error
  }
}
