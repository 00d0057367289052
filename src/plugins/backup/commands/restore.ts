/**
 * `trainyard restore`: a data directory from a backup file, every byte checked.
 */

import { resolve } from 'node:path'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { formatBytes, plural } from '#cli/terminal/format.js'
import { command } from '#contract/wire/command-words.js'

export const restore = defineCommand({
  path: ['restore'],
  summary: 'Restore a data directory from a backup',
  details:
    'The directory must be empty or not exist. Every file is checked against its digest; if one differs, nothing is left behind. A backup of an earlier version is brought up to date by the next `trainyard serve`, one of a later version is refused.',
  examples: [
    ['trainyard restore trainyard.tar --data-dir ./restored', 'then serve it with the same --data-dir'],
    ['trainyard restore trainyard.tar --json', 'into the default data directory'],
  ],
  args: { file: argument.required('the backup') },
  flags: { dataDir: flag.setting('data-dir') },
  exits: ['not_found', 'conflict'],
  next: ['trainyard serve --data-dir <dir>'],
  async run({ config, output, args }) {
    const target = resolve(config.get('data-dir') ?? config.paths.dataDir)
    const { restoreBackup } = await import('../data-directory.js')
    const { dataDir, program, createdAt, schema, blobs, bytes, blobStore, damaged } = await restoreBackup(
      args.file,
      target,
    )
    const json = {
      object: 'restore',
      data_dir: dataDir,
      program,
      created_at: createdAt,
      schema,
      blobs,
      blob_bytes: bytes,
      blob_store: blobStore,
      damaged,
    }
    const made = `made ${createdAt} by version ${program}`
    output.result(json, `Restored ${dataDir}: ${plural(blobs, 'blob')}, ${formatBytes(bytes)}; ${made}`, [dataDir])
    if (blobStore !== null) {
      output.warning(`the blobs are kept in ${blobStore} and were not in the file`)
      output.hint(command`trainyard serve --data-dir ${dataDir} --blob-store ${blobStore}`)
    }
    if (damaged.length > 0) {
      output.warning(`${plural(damaged.length, 'blob')} were damaged or gone when the backup was made and are missing`)
    }
  },
})
