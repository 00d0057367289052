/**
 * `trainyard keys create`: a new API key, made by the service, or in the data directory itself, so that an owner who lost every
 * key gets in again.
 */
import { resolve } from 'node:path'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { KEY_SCOPES } from '#contract/wire/access/key-words.js'

export const createKey = defineCommand({
  path: ['keys', 'create'],
  summary: 'Make an API key',
  details:
    'The key is printed once. Scopes: read reads everything and asks models for answers, write also creates, trains and deletes, admin also manages keys; worker lets a machine train jobs and opens nothing else; with --project it sees that project only. With --local, or with --data-dir, the key is made in the data directory itself: that needs the right to write it and no other key, a running server accepts the new key at once, --entity may name a new entity, and the directory’s key file is made again if it is lost.',
  examples: [
    ['trainyard keys create ci --scope write --project games --expires 720h', 'for a build server'],
    ['trainyard keys create --local', 'when the key is lost: in the default data directory'],
    ['trainyard keys create --data-dir ./data -q > key.txt', 'the key alone'],
  ],
  namespace: ['project', 'entity'],
  args: { name: argument.optional('what to call it') },
  flags: {
    scope: flag.choice(KEY_SCOPES)('--scope <scope>', `${KEY_SCOPES.join(', ')}; default admin`),
    expires: flag.lifetime('--expires <duration>', 'refused after this time, for example 720h; default never'),
    local: flag.switch('--local', 'make it in the data directory, without the service'),
    dataDir: flag.setting('data-dir'),
    database: flag.setting('database'),
  },
  exits: ['not_found'],
  next: ['trainyard keys list'],
  async run({ connect, config, output, args, flags, signal }) {
    const name = args.name ?? ''
    const scope = flags.scope ?? 'admin'
    const project = config.resolve('project').source === 'flag' ? config.get('project') : undefined
    if (!flags.local && config.resolve('data-dir').source !== 'flag') {
      if (config.resolve('entity').source === 'flag') {
        throw new UsageError(
          'conflicting_options',
          '--entity takes --local: a service makes keys of its caller’s entity',
          {
            param: '--entity',
            hint: 'leave it out, or run it where the data directory is, with --local',
          },
        )
      }
      const client = await connect()
      const expires_in_seconds = flags.expires === undefined ? undefined : Math.ceil(flags.expires / 1000)
      const created = await client.keys.create({ name, scope, project, expires_in_seconds }, { signal })
      return output.result(created, created.key, [created.key])
    }
    const dataDir = resolve(config.get('data-dir') ?? config.paths.dataDir)
    const { createLocalKey } = await import('#plugins/data-directory.js')
    const limits = {
      name,
      scope,
      ...(config.get('entity') === null ? {} : { entity: config.get('entity') ?? '' }),
      project: project ?? null,
      expiresInMs: flags.expires ?? null,
    }
    const { id, key, entity, keyFile } = await createLocalKey(dataDir, limits, config.get('database'))
    const json = { object: 'api_key', id, name, scope, project: project ?? null, key, entity, api_key_file: keyFile }
    output.result(json, key, [key])
    if (keyFile !== null) output.status(`Stored in ${keyFile}`)
  },
})
