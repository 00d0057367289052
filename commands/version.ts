/**
 * `trainyard version`: this program's version and, when it answers, the service's.
 */
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'

export const version = defineCommand({
  path: ['version'],
  summary: 'Print the versions of this program and the service',
  details: 'A service that does not answer is no error.',
  examples: [
    ['trainyard version', 'both versions'],
    ['trainyard version --json', 'both versions for scripts'],
  ],
  args: {},
  flags: {},
  async run({ config, getJson, output, signal, version: client }) {
    const service = await readServiceVersion(`${config.get('server')}/v1/health`, { getJson, signal })
    signal.throwIfAborted()
    const json = { client, service, node: process.versions.node }
    output.record(json, client, [
      ['Client', client],
      ['Service', service ?? 'not reachable'],
      ['Node.js', process.versions.node],
    ])
  },
})

/** Longest wait for the service: the answer is about this program first. */
const PATIENCE_MS = 2000

/** The version a service tells; null when there is none. Without the typed client, which takes longer to load than all else. */
async function readServiceVersion(
  url: string,
  { getJson, signal }: Pick<CommandContext, 'getJson' | 'signal'>,
): Promise<string | null> {
  const patience = new AbortController()
  const stop = (): void => patience.abort()
  const timer = setTimeout(stop, PATIENCE_MS)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const health: unknown = await getJson(url, patience.signal)
    const version = typeof health === 'object' && health !== null && 'version' in health ? health.version : null
    return typeof version === 'string' ? version : null
  } catch {
    return null
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}
