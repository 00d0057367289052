/**
 * `trainyard backup`: everything a service knows as one file.
 */
import { resolve } from 'node:path'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatBytes, plural } from '#cli/terminal/format.js'

export const backup = defineCommand({
  path: ['backup'],
  summary: 'Save a data directory as one file, also while it is served',
  details:
    'Needs the right to read and write the data directory and no key; a server that runs on it goes on. The file is a tar archive with the database as of one moment, every blob it names and the key file: whoever reads it has the keys and the data, so it is made readable by its owner only. Prepared base weights are left out, they are made again. Rows in PostgreSQL (--database) are saved by pg_dump instead. Blobs that are kept in a bucket (--blob-store) are left out too: keep versions of it, or a copy that is not older than the file.',
  examples: [
    ['trainyard backup --out trainyard.tar', 'the default data directory'],
    ['trainyard backup --out /backups/today.tar --data-dir ./data --force', 'over the file of yesterday'],
  ],
  args: {},
  flags: {
    out: flag.required('--out <file>', 'where to write it', {
      what: 'the file to write',
      hint: 'trainyard backup --out trainyard.tar',
    }),
    dataDir: flag.setting('data-dir'),
    database: flag.setting('database'),
    force: flag.switch('--force', 'write over a file that exists'),
  },
  exits: ['not_found', 'conflict'],
  next: ['trainyard restore <file> --data-dir <dir>'],
  async run({ config, output, flags, signal }) {
    if (flags.out === '-') {
      throw new UsageError('invalid_argument', '--out must be a file: a backup is not written to standard output', {
        param: '--out',
        hint: 'trainyard backup --out trainyard.tar; a file that is called - is ./-',
      })
    }
    const dataDir = resolve(config.get('data-dir') ?? config.paths.dataDir)
    const database = config.get('database')
    if (database !== null) throw rowsElsewhere(database)
    const { createBackup } = await import('../data-directory.js')
    const { file, sizeBytes, schema, blobs, bytes, blobStore, damaged } = await createBackup(dataDir, flags.out, {
      isReplacing: flags.force,
      signal,
    })
    const json = {
      object: 'backup',
      file,
      size_bytes: sizeBytes,
      schema,
      blobs,
      blob_bytes: bytes,
      blob_store: blobStore,
      damaged,
    }
    output.result(json, `Saved ${dataDir} to ${file}: ${plural(blobs, 'blob')}, ${formatBytes(sizeBytes)}`, [file])
    if (blobStore !== null) {
      output.warning(`the file holds rows and the key; the blobs they name are kept in ${blobStore}`)
      output.hint('keep versions of that bucket, or a copy as of now or later')
    }
    if (damaged.length > 0) {
      throw new AppError('internal', 'backup_incomplete', `${plural(damaged.length, 'blob')} could not be saved`, {
        hint: `the rest is in ${file}; damaged or gone: ${damaged.slice(0, 3).join(', ')}`,
      })
    }
  },
})

/** Only PostgreSQL's own tools see its rows as of one moment. */
function rowsElsewhere(database: string): InvalidRequestError {
  return new InvalidRequestError(
    'rows_elsewhere',
    'a backup has the rows of a data directory, and these are in PostgreSQL',
    {
      param: 'database',
      hint: `pg_dump --format=custom --file=trainyard.dump '${database}'; then save the blobs: ${'<data dir>'}/blobs, or a version of the bucket that is not older`,
    },
  )
}
