/**
 * `trainyard base-models list`: names `models create --base-model` accepts.
 */
import { defineCommand } from '#cli/command/define-command.js'

export const listBaseModels = defineCommand({
  path: ['base-models', 'list'],
  summary: 'List base models the service can train',
  examples: [
    ['trainyard base-models list', 'one name per line'],
    ['trainyard base-models list --json', 'the array of names the API returns'],
  ],
  args: {},
  flags: {},
  next: ['trainyard models create <name> --base-model <base model>'],
  async run({ connect, output, signal }) {
    const names = await (await connect()).baseModels.list({ signal })
    output.rows(names, names, [{ header: 'name', kind: 'name', get: (name: string) => name }], (name) => name)
  },
})
