/**
 * `trainyard config list`: every setting, its value and where that comes from.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { fingerprint } from '#cli/config/credentials.js'
import type { Config } from '#cli/config/load.js'
import { type SettingKey, settingKeys, settings } from '#cli/config/schema.js'

export const listConfig = defineCommand({
  path: ['config', 'list'],
  summary: 'List settings with their sources',
  examples: [
    ['trainyard config list', 'all settings'],
    ['trainyard config list --json', 'the same for scripts'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {},
  next: ['trainyard config set <key> <value>'],
  async run({ config, output }) {
    const rows = settingKeys.map((key) => {
      const { source, origin } = config.resolve(key)
      return { key, value: showValue(config, key), source, origin, env: settings[key].env, flag: settings[key].flag }
    })
    output.rows(
      rows,
      rows,
      [
        { header: 'key', kind: 'name', get: (row) => row.key },
        { header: 'value', get: (row) => row.value, canShrink: true },
        { header: 'source', get: (row) => row.source, rank: 1 },
        { header: 'flag', get: (row) => row.flag?.replace(/ <.*/, ''), canShrink: true, rank: 2 },
        { header: 'environment', get: (row) => row.env.join(' '), canShrink: true, rank: 3 },
      ],
      (row) => row.key,
    )
  },
})

/** A value as text; a secret only as its fingerprint. */
export function showValue(config: Config, key: SettingKey): string | null {
  const value = config.get(key)
  if (value === null) return null
  if (settings[key].isSecret === true) return fingerprint(String(value))
  if (settings[key].type === 'duration') return `${String(value)}ms`
  return Array.isArray(value) ? value.join(',') : String(value)
}
