/**
 * `trainyard version`: this program's version and, when it answers, the service's.
 */
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
  async run({ connect, output, signal, version: client }) {
    const service = await connect()
      .then((connected) => connected.health({ signal }))
      .then(
        (health) => health.version,
        () => {
          signal.throwIfAborted()
          return null
        },
      )
    const json = { client, service, node: process.versions.node }
    output.record(json, client, [
      ['Client', client],
      ['Service', service ?? 'not reachable'],
      ['Node.js', process.versions.node],
    ])
  },
})
