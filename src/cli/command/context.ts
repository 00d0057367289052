/**
 * What every command is handed: streams, output, prompts, settings, a client, time and interruption. Built once per run.
 */

import type { Environment } from '#base/environment.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import { type Credential, findCredential } from '#cli/config/credentials.js'
import type { Config } from '#cli/config/load.js'
import type { Client } from '#sdk/client/client.js'
import type { Fetch } from '#sdk/client/light-fetch.js'
import { createIo, type Io, type ProcessStreams } from '../terminal/io.js'
import { createOutput, type Output } from '../terminal/output.js'
import type { SpellCommands } from '../terminal/program-name.js'
import { createPrompts, type Prompts } from '../terminal/prompts.js'
import { sanitizeLine } from '../terminal/sanitize.js'

export interface CommandContext {
  readonly io: Io
  readonly output: Output
  readonly prompts: Prompts
  readonly config: Config
  readonly environment: Environment
  readonly clock: Clock
  /** Aborts with an `InterruptedError` on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal
  readonly version: string
  /** Commands on stdout as this reader has to type them; what goes to stderr is spelled by the output. */
  readonly spell: SpellCommands
  /** The key in use and its source; null: none found. */
  readonly credential: () => Promise<Credential | null>
  /** The client, created on first use with the key that was found. */
  readonly connect: () => Promise<Client>
  /** The JSON at a URL, for what needs no client with its schemas. */
  readonly getJson: (url: string, signal: AbortSignal) => Promise<unknown>
  /** A client of another server, with its own key. */
  readonly connectTo: (baseUrl: string, apiKey: string | null) => Promise<Client>
}

export interface ContextOptions {
  readonly config: Config
  readonly environment: Environment
  readonly streams: ProcessStreams
  readonly isQuiet: boolean
  readonly signal: AbortSignal
  readonly version: string
  readonly spell: SpellCommands
  readonly fetch?: Fetch | undefined
  readonly clock?: Clock | undefined
}

/** Builds the context; reads no file and opens no connection until a command asks. */
export function createContext(options: ContextOptions): CommandContext {
  const { config } = options
  const clock = options.clock ?? systemClock
  const io = createIo(options.streams, config.get('color'), options.environment)
  const output = createOutput(io, config.get('json') ? 'json' : options.isQuiet ? 'quiet' : 'human', {
    clock,
    spell: options.spell,
  })
  const isAllowed = !config.get('json') && !config.get('no-input')
  let credential: Promise<Credential | null> | undefined
  let client: Promise<Client> | undefined

  function findOnce(): Promise<Credential | null> {
    credential ??= findCredential(config, () => io.stdin.readAll())
    return credential
  }

  async function connectTo(baseUrl: string, apiKey: string | null): Promise<Client> {
    // with its schemas half of what a command loads; offline commands need none of it
    const { createClient } = await import('#sdk/client/client.js')
    const timeoutMs = config.get('timeout')
    return createClient({
      baseUrl,
      apiKey,
      userAgent: `trainyard/${options.version}`,
      ...(timeoutMs === null ? {} : { timeoutMs, longTimeoutMs: timeoutMs }),
      ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
      ...(config.get('verbose')
        ? {
            onRequest: (record) => {
              const outcome = record.status === null ? 'no answer' : String(record.status)
              const id = record.requestId === null ? '' : ` ${sanitizeLine(record.requestId)}`
              io.stderr.write(`${record.method} ${record.path} ${outcome} ${Math.round(record.durationMs)} ms${id}\n`)
            },
          }
        : {}),
    })
  }

  async function connectNow(): Promise<Client> {
    return connectTo(config.get('server'), (await findOnce())?.key ?? null)
  }

  return {
    io,
    output,
    prompts: createPrompts(io, { isAllowed, signal: options.signal }),
    config,
    environment: options.environment,
    clock,
    signal: options.signal,
    version: options.version,
    spell: options.spell,
    credential: findOnce,
    connect: () => {
      client ??= connectNow()
      return client
    },
    getJson: async (url, signal) => {
      if (options.fetch !== undefined) return await (await options.fetch(url, { signal })).json()
      return await (await import('#sdk/client/light-fetch.js')).getJson(url, signal)
    },
    connectTo,
  }
}
