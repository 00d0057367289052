/**
 * `trainyard config set`: stores a setting. A secret is never an argument: it is asked for, or read from standard input.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { requireSettingKey, updateConfigFile } from '#cli/config/config-file.js'
import { parseSetting } from '#cli/config/parse-setting.js'
import { settings } from '#cli/config/schema.js'
import { UsageError } from '#cli/terminal/errors.js'
import { command } from '#contract/wire/command-words.js'

export const setConfig = defineCommand({
  path: ['config', 'set'],
  summary: 'Store a setting in the config file',
  examples: [
    [
      'trainyard config set project games',
      'models are then named without their project; lists still show every project',
    ],
    ['trainyard config set api-key - < key.txt', 'a secret from a file, never on the command line'],
  ],
  args: {
    key: argument.required('name of the setting'),
    value: argument.optional('its value; - reads standard input; a secret left out is asked for'),
  },
  flags: {},
  exits: ['not_found'],
  async run({ config, io, output, prompts, args }) {
    const key = requireSettingKey(args.key)
    const isSecret = settings[key].isSecret === true
    if (isSecret && args.value !== undefined && args.value !== '-') {
      throw new UsageError('secret_on_command_line', `${key} must not be given as an argument`, {
        hint: command`trainyard config set ${key} - < key.txt`,
      })
    }
    if (args.value === undefined && !isSecret) {
      throw new UsageError('missing_argument', 'missing required argument "value"', {
        hint: 'trainyard config set --help',
      })
    }
    const text =
      args.value === undefined
        ? await prompts.secret(`Value of ${key}:`, command`trainyard config set ${key} -`)
        : args.value === '-'
          ? await io.stdin.readAll()
          : args.value
    parseSetting(key, text.trim(), key)
    await updateConfigFile(config.paths.configFile, key, text.trim())
    output.status(`Set ${key} in ${config.paths.configFile}`)
    if (output.mode === 'json') output.result({ key, path: config.paths.configFile }, '', [key])
  },
})
