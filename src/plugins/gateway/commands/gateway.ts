/**
 * `trainyard gateway`: a server with one route to an upstream, for programs of this machine.
 */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { isLoopbackUrl } from '#base/util/loopback.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import type { Client } from '#sdk/client/client.js'
import { startServerProcess } from '../../demo/server-process.js'
import { createRouteCalls } from './calls.js'
import { routeFlags, toRouteRequest } from './route-flags.js'

/** Between two looks whether the server lives. */
const LOOK_MS = 2000

export const gatewayCommand = defineCommand({
  path: ['gateway'],
  summary: 'Record what programs ask of another service’s models',
  details:
    'Starts a server on this machine with one route, until Ctrl-C. Programs take its address as base URL and keep their key, which passes on and is stored nowhere. Keys, tokens and e-mail addresses are masked before anything is written. Where a server runs already, trainyard routes create --local makes the route there.',
  examples: [
    ['trainyard gateway --upstream https://api.openai.com/v1', 'for clients of OpenAI'],
    ['trainyard gateway --upstream https://api.anthropic.com --name mails --no-content', 'counts alone, by a name'],
  ],
  args: {},
  flags: {
    ...routeFlags,
    name: flag.text('--name <name>', 'of the route; default "default"', { default: 'default' }),
    port: flag.setting('port'),
    dataDir: flag.setting('data-dir', { isAdvanced: true }),
  },
  exits: ['conflict'],
  next: ['trainyard routes get <name>'],
  async run(context) {
    const { config, connectTo, environment, flags, output, signal } = context
    const { upstream, keyVariable } = flags
    const url = URL.canParse(upstream) ? new URL(upstream) : null
    const isNear = url !== null && (url.protocol === 'http:' || isLoopbackUrl(upstream))
    const dataDir = config.get('data-dir')
    const given = [
      ...(dataDir === null ? [] : ['--data-dir', resolve(dataDir)]),
      // who names an address on this command line has allowed it
      ...(isNear ? ['--gateway-host', url.host] : []),
      ...(keyVariable === undefined || url === null ? [] : ['--gateway-key', `${keyVariable}=${url.origin}`]),
    ]
    const server = await startServerProcess({ flags: given, port: Number(config.get('port')), environment, signal })
    try {
      const key = (await readFile(server.apiKeyFile, 'utf8')).trim()
      const client = await connectTo(server.url, key)
      const request = { ...toRouteRequest(flags.name, flags), access: 'local' as const }
      const made = await createRouteCalls(client, signal).create(request)
      const base = `${server.url}${made.path}`
      output.event(
        { event: 'listening', base_url: base, route: made.id, url: server.url },
        [
          `Passing on to ${made.upstream}`,
          `  OpenAI     base URL ${base}`,
          `  Anthropic  base URL ${base.replace(/\/v1$/, '')}`,
          'Press Ctrl-C to stop.',
        ].join('\n'),
      )
      await untilStopped(context, client)
    } finally {
      await server.stop()
    }
  },
})

/** Waits for the end of this command, or of the server. */
async function untilStopped({ signal }: Pick<CommandContext, 'signal'>, client: Client): Promise<void> {
  while (!signal.aborted) {
    await client.http.sleep(LOOK_MS, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
    if (!signal.aborted) await client.health()
  }
}
