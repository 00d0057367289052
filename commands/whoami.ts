/**
 * `trainyard whoami`: which server and key are used and where they come from; then whether the server agrees.
 */

import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { fingerprint } from '#cli/config/credentials.js'
import type { ResolvedSetting } from '#cli/config/load.js'
import { ApiError } from '#sdk/client/errors.js'

export const whoami = defineCommand({
  path: ['whoami'],
  summary: 'Show which server and which key are used',
  details: 'The JSON has the same keys whether the key is accepted or not; not accepted is exit 4.',
  examples: [
    ['trainyard whoami', 'server, key and where each comes from'],
    ['trainyard whoami --json', 'the same for scripts'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {},
  async run({ connect, credential, config, output, signal }) {
    const client = await connect()
    const key = await credential()
    let failure: AppError | null = null
    const identity = await client.whoami({ signal }).catch((error: unknown) => {
      if (!(error instanceof AppError)) throw error
      // A server without this route may still accept the key: that is not ours to judge.
      failure = error instanceof ApiError && error.status === 404 ? null : error
      return null
    })
    const server = config.resolve('server')
    const project = config.resolve('project')
    const json = {
      authenticated: identity !== null,
      server: { value: server.value, source: server.source },
      api_key: key === null ? null : { fingerprint: fingerprint(key.key), source: key.source },
      entity: identity?.entity ?? config.get('entity'),
      project: { value: project.value, source: project.source },
    }
    output.record(json, json.entity ?? '', [
      ['Server', `${server.value} ${from(server)}`],
      ['API key', key === null ? 'none' : `${fingerprint(key.key)} (from ${key.origin})`],
      ['Entity', json.entity ?? 'unknown'],
      ['Project', `${project.value} ${from(project)}`],
      ['Status', identity === null ? 'not authenticated' : 'authenticated'],
    ])
    if (failure !== null) throw failure
  },
})

function from(setting: ResolvedSetting<unknown>): string {
  return setting.source === 'default' ? '(default)' : `(from ${setting.origin})`
}
