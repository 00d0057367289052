/**
 * `trainyard keys create`: a new API key, made in the data directory itself, so that an owner who lost the key gets in again.
 */
import { resolve } from 'node:path'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'

export const createKey = defineCommand({
  path: ['keys', 'create'],
  summary: 'Make a new API key in a data directory on this machine',
  details:
    'Needs the right to write the data directory and no other key; a running server accepts the new one at once. The key is printed once. It is also stored as the directory’s key file if that file is lost. Other keys stay valid.',
  examples: [
    ['trainyard keys create', 'in the default data directory'],
    ['trainyard keys create --data-dir ./data -q > key.txt', 'the key alone'],
  ],
  args: {},
  flags: { dataDir: flag.setting('data-dir') },
  exits: ['not_found'],
  async run({ config, output }) {
    const dataDir = resolve(config.get('data-dir') ?? config.paths.dataDir)
    const { createLocalKey } = await import('#service/operations/local-keys.js')
    const { key, entity, keyFile } = await createLocalKey(dataDir)
    const stored = keyFile === null ? [] : [`Stored in ${keyFile}`]
    output.result({ object: 'api_key', key, entity, api_key_file: keyFile }, key, [key])
    for (const line of stored) output.status(line)
  },
})
