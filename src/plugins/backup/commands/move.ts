/**
 * `trainyard move`: what a service knows, from a data directory to PostgreSQL and a bucket, and back.
 */
import { join } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import type { SettingKey } from '#cli/config/schema.js'
import { formatBytes, plural } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'

export const move = defineCommand({
  path: ['move'],
  summary: 'Move a service to PostgreSQL and a bucket, or back',
  details:
    'Copies every row and every blob that rows name, with the same ids and digests, compares all of them, and changes nothing in the source. No server may work on either side meanwhile. The source is --from, with --from-database and --from-blob-store where its servers had --database and --blob-store; the target is what --database, --blob-store and --data-dir say, flags only: a half that both name the same stays where it is, and without --data-dir the directory is that of --from. The target must be empty. A move that was interrupted is run again: it goes on with the blobs that are missing, and rows come all at once at the end. Passwords and keys are taken from where servers take them.',
  examples: [
    ["trainyard move --from ./data --database postgres://me@db/yard --blob-store 's3://bucket/yard'", 'rows and blobs'],
    ['trainyard move --from ./data --blob-store s3://bucket/yard --dry-run', 'blobs alone; says what there is to move'],
    [
      'trainyard move --from-database postgres://me@db/yard --from-blob-store s3://bucket/yard --data-dir ./back',
      'back into a new directory',
    ],
  ],
  args: {},
  flags: {
    from: flag.text('--from <dir>', 'data directory of the source'),
    fromDatabase: flag.text('--from-database <address>', 'where its rows are, if in PostgreSQL'),
    fromBlobStore: flag.text('--from-blob-store <address>', 'where its blobs are, if in a bucket'),
    dataDir: flag.setting('data-dir'),
    database: flag.setting('database'),
    blobStore: flag.setting('blob-store'),
    dryRun: flag.switch('--dry-run', 'look at both sides, say what would move, and change nothing'),
  },
  exits: ['not_found', 'conflict', 'unreachable'],
  next: ['trainyard serve', 'trainyard verify'],
  async run({ config, environment, io, output, flags, signal }) {
    // a setting of the environment may be either side's
    const given = <K extends SettingKey>(key: K) => (config.resolve(key).source === 'flag' ? config.get(key) : null)
    const { moveService } = await import('../data-directory.js')
    const isDryRun = flags.dryRun
    const progress = startProgress(io, output.mode === 'human', 'opening both sides')
    const { places, tables, blobs, bytes, present, damaged, baseModelsLeft } = await moveService({
      from: {
        directory: flags.from ?? null,
        database: flags.fromDatabase ?? null,
        blobStore: flags.fromBlobStore ?? null,
      },
      to: { directory: given('data-dir'), database: given('database'), blobStore: given('blob-store') },
      environment,
      isDryRun,
      signal,
      onProgress: (state) =>
        progress.update(
          state.what === 'blobs'
            ? `blobs: ${state.done} of ${state.of}, ${formatBytes(state.bytes)}`
            : `rows: ${state.done}, ${state.table}`,
        ),
    }).finally(() => progress.stop())
    const rows = tables.reduce((sum, table) => sum + table.rows, 0)
    const [from, to] = [places.from.description, places.to.description]
    const json = {
      object: 'move',
      dry_run: isDryRun,
      from,
      to,
      rows,
      tables: tables.map(({ name, rows: count, digest = null }) => ({ name, rows: count, digest })),
      blobs,
      blob_bytes: bytes,
      blobs_present: present,
      damaged: damaged.map(({ sha256, problem, namedBy }) => ({ sha256, problem, named_by: namedBy })),
      base_models_left: baseModelsLeft,
    }
    const what = [
      ...(places.movesRows ? [plural(rows, 'row')] : []),
      ...(places.movesBlobs ? [`${plural(blobs, 'blob')} (${formatBytes(bytes)}), ${present} there already`] : []),
    ].join(', ')
    if (damaged.length === 0)
      output.result(json, `${isDryRun ? 'Would move' : 'Moved'} ${from} to ${to}: ${what}`, [to])
    else if (config.get('json')) output.result(json, '', [])
    if (baseModelsLeft.length > 0) {
      const [folder, names] = [join(places.from.directory ?? '', 'base-models'), baseModelsLeft.join(', ')]
      output.warning(
        `base models that were added stay behind: ${names}; copy "${folder}" into the data directory of the new server, or add them there`,
      )
    }
    for (const { sha256, problem, namedBy } of damaged) {
      output.warning(`blob ${sha256} ${problem}; named by ${namedBy.join(', ')}`)
    }
    if (damaged.length > 0) {
      const named = damaged.slice(0, 3).map(({ sha256 }) => sha256.slice(0, 12))
      throw new AppError(
        'internal',
        'source_damaged',
        `${plural(damaged.length, 'blob')} of the source ${damaged.length === 1 ? 'is' : 'are'} damaged or gone: ${named.join(', ')}`,
        {
          hint: 'no row was moved; put them back from a backup, or delete what names them (trainyard verify), then move again: what was copied is not copied again',
        },
      )
    }
    if (!isDryRun) output.hint(`start it where it is now: ${serveLine(places.to)}; do not serve the source again`)
  },
})

function serveLine({
  directory,
  database,
  blobStore,
}: {
  readonly directory: string | null
  readonly database: string | null
  readonly blobStore: string | null
}): string {
  return [
    'trainyard serve',
    ...(directory === null ? [] : [`--data-dir '${directory}'`]),
    ...(database === null ? [] : [`--database '${database}'`]),
    ...(blobStore === null ? [] : [`--blob-store '${blobStore}'`]),
    ...(database !== null && blobStore === null ? ['--single-server'] : []),
  ].join(' ')
}
