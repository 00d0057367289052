/**
 * `trainyard config unset`: removes a setting from the config file; done when it was not there.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { requireSettingKey, updateConfigFile } from '#cli/config/config-file.js'

export const unsetConfig = defineCommand({
  path: ['config', 'unset'],
  summary: 'Remove a setting from the config file',
  examples: [
    ['trainyard config unset project', 'back to the default'],
    ['trainyard config unset api-key', 'forget a stored key'],
  ],
  args: { key: argument.required('name of the setting') },
  flags: {},
  exits: ['not_found'],
  async run({ config, output, args }) {
    const key = requireSettingKey(args.key)
    await updateConfigFile(config.paths.configFile, key, null)
    output.status(`Removed ${key} from ${config.paths.configFile}`)
    if (output.mode === 'json') output.result({ key, path: config.paths.configFile }, '', [key])
  },
})
