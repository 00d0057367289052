/**
 * `trainyard config get`: one setting, as a script wants it.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { requireSettingKey } from '#cli/config/config-file.js'
import { showValue } from './list.js'

export const getConfig = defineCommand({
  path: ['config', 'get'],
  summary: 'Print one setting',
  examples: [
    ['trainyard config get server', 'the server in use'],
    ['trainyard config get project --json', 'with its source'],
  ],
  namespace: ['project', 'entity'],
  args: { key: argument.required('name of the setting') },
  flags: {},
  exits: ['not_found'],
  async run({ config, output, args }) {
    const key = requireSettingKey(args.key)
    const { source, origin } = config.resolve(key)
    const value = showValue(config, key)
    output.result({ key, value, source, origin }, value ?? '', [value ?? ''])
  },
})
