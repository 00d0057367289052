/**
 * `trainyard keys revoke`: revokes keys, which are refused from then on.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import type { ApiKey } from '#contract/wire/access/keys.js'
import { collectPages } from '#sdk/client/pages.js'

export const revokeKeys = defineCommand({
  path: ['keys', 'revoke'],
  summary: 'Revoke API keys',
  details:
    'Needs a key with scope admin. It cannot be undone; all keys are looked up before one is revoked. Whoever revokes the last one gets in again with `trainyard keys create --local`.',
  examples: [
    ['trainyard keys revoke ci', 'by its name, if no other key has it'],
    ['trainyard keys revoke ty_4f8a --yes', 'by how it begins'],
  ],
  args: { key: argument.many('id, name, or the characters it begins with') },
  flags: { yes: flag.switch('--yes', 'do not ask') },
  exits: ['not_found', 'conflict'],
  async run({ connect, output, prompts, args, flags, signal }) {
    if (!flags.yes && !prompts.canAsk) {
      throw new UsageError('input_required', '--yes is required to revoke without a terminal', { param: '--yes' })
    }
    const client = await connect()
    const all = (await collectPages((query) => client.keys.list(query, { signal }))).data
    const keys = [...new Set(args.key.map((text) => findKey(all, text)))]
    for (const key of keys) {
      if (flags.yes) break
      const what = `key ${key.name === '' ? key.id : key.name} (${key.key_prefix}…, scope ${key.scope})`
      if (key.is_current) output.warning('this is the key that this command uses')
      if (!(await prompts.confirm(`Revoke ${what}?`, '--yes'))) throw new UsageError('not_confirmed', 'nothing revoked')
    }
    // the one in use last: with it gone the others could not be revoked
    keys.sort((a, b) => Number(a.is_current) - Number(b.is_current))
    const ids: string[] = []
    for (const key of keys) ids.push((await client.keys.delete(key.id, { signal })).id)
    output.result({ revoked: ids }, `Revoked ${plural(ids.length, 'key')}`, ids)
  },
})

function findKey(keys: readonly ApiKey[], text: string): ApiKey {
  const byId = keys.find((key) => key.id === text)
  if (byId !== undefined) return byId
  const named = keys.filter((key) => key.name === text)
  const found = named.length > 0 ? named : keys.filter((key) => text.length > 3 && key.key_prefix.startsWith(text))
  if (found.length > 1) {
    throw new UsageError('ambiguous_key', `"${text}" fits ${plural(found.length, 'key')}`, {
      hint: `name one by its id: ${found.map((key) => key.id).join(', ')}`,
    })
  }
  if (found[0] !== undefined) return found[0]
  throw new NotFoundError('key_not_found', `no API key "${text}"`, { hint: 'trainyard keys list' })
}
