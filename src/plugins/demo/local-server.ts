/**
 * The server a command works with when it may also bring its own: the chosen one, the one that runs here, else a new one.
 *
 * A server that was chosen by flag, variable or config file is used whatever its state. Only when nothing was chosen and
 * nothing answers at the default address, or somebody else's server, is one started, with the default data directory, so
 * that its models stay; a data directory given as a flag asks for a server of one's own.
 */

import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { CommandContext } from '#cli/command/context.js'
import { UsageError } from '#cli/terminal/errors.js'
import { command } from '#contract/wire/command-words.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError, ConnectionError } from '#sdk/client/errors.js'
import { startServerProcess } from './server-process.js'

interface BorrowedServer {
  readonly client: Client
  /** Command that starts the server again when this run started it; null when it was there before. */
  readonly startCommand: string | null
  /** Stops it if this run started it; safe to call twice. */
  release(): Promise<void>
}

/** Finds or starts a server. @throws {AppError} when the chosen one cannot be used, or a new one cannot be started */
export async function borrowServer(context: CommandContext): Promise<BorrowedServer> {
  const { config, connect, connectTo, environment, output, signal } = context
  const choice = config.resolve('server').source
  const isOwn = config.resolve('data-dir').source === 'flag'
  if (isOwn && choice === 'flag') {
    throw new UsageError('invalid_argument', 'choose --server, or --data-dir for a server of its own', {
      param: '--data-dir',
    })
  }
  if (!isOwn) {
    const client = await connect()
    const found = choice === 'default' ? await whoAnswers(client, signal) : 'ours'
    if (found === 'ours') return { client, startCommand: null, release: () => Promise.resolve() }
    if (found === 'others')
      output.status(`${config.get('server')} is a server that takes no key of yours: it is left alone`)
  }
  const dataDir = config.get('data-dir')
  const flags = dataDir === null ? [] : ['--data-dir', resolve(dataDir)]
  output.status('Starting a server')
  const server = await startServerProcess({ flags, environment, signal })
  try {
    // Without its file, the key was put somewhere by a person, who then named the place.
    const apiKey = await readFile(server.apiKeyFile, 'utf8').then(
      (text) => text.trim(),
      async () => (await context.credential())?.key ?? null,
    )
    output.status(`Listening on ${server.url}, data in ${resolve(dataDir ?? config.paths.dataDir)}`)
    return {
      client: await connectTo(server.url, apiKey),
      startCommand: context.spell(
        isOwn && dataDir !== null ? command`trainyard serve --data-dir ${dataDir}` : 'trainyard serve',
      ),
      release: server.stop,
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

/** Who answers there: only a connection that fails counts as nobody, and only a refused key as somebody else's server. */
async function whoAnswers(client: Client, signal: AbortSignal): Promise<'nobody' | 'ours' | 'others'> {
  try {
    await client.health({ signal })
    await client.whoami({ signal })
    return 'ours'
  } catch (error) {
    if (error instanceof ConnectionError) return 'nobody'
    if (error instanceof ApiError && error.status === 401) return 'others'
    if (error instanceof ApiError && error.status === 404) return 'ours'
    throw error
  }
}
