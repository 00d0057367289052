/**
 * `trainyard config path`: where the config file is, whether it exists or not.
 */
import { defineCommand } from '#cli/command/define-command.js'

export const configPath = defineCommand({
  path: ['config', 'path'],
  summary: 'Print where the config file is',
  examples: [
    ['trainyard config path', 'the path alone'],
    ['$EDITOR "$(trainyard config path)"', 'edit it by hand'],
  ],
  args: {},
  flags: {},
  async run({ config, output }) {
    const path = config.paths.configFile
    output.result({ path }, path, [path])
  },
})
