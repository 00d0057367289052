/**
 * `trainyard verify`: which blobs are missing, damaged or named by no row, before anything is done about it.
 */
import { resolve } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { formatBytes, plural } from '#cli/terminal/format.js'
import type { StorageReport } from '#contract/wire/health.js'

export const verify = defineCommand({
  path: ['verify'],
  summary: 'Look for missing, damaged and unnamed blobs',
  details:
    'Reads every byte and changes nothing. The service does it, with an admin key; with --local or --data-dir it is done in the data directory itself, without a key, also while no server starts on it. Exit 1 when blobs are missing or damaged or the database does not belong to the data; a blob that no row names is listed and no failure.',
  examples: [
    ['trainyard verify', 'what a running service has'],
    ['trainyard verify --data-dir ./data --json', 'a data directory, as JSON'],
  ],
  args: {},
  flags: {
    local: flag.switch('--local', 'in the data directory, without the service'),
    dataDir: flag.setting('data-dir'),
  },
  exits: ['not_found', 'conflict'],
  next: ['trainyard backup --out <file>', 'trainyard restore <file> --data-dir <dir>'],
  async run({ connect, config, output, flags, signal }) {
    const isLocal = flags.local || config.resolve('data-dir').source === 'flag'
    const dataDir = resolve(config.get('data-dir') ?? config.paths.dataDir)
    const events = isLocal
      ? (await import('../data-directory.js')).verifyDataDir(dataDir, signal)
      : (await connect()).verify({ signal })
    let report: StorageReport | null = null
    for await (const event of events) if (event.object === 'storage_report') report = event
    if (report === null) return
    const rows = findingsOf(report)
    output.rows(
      report,
      rows,
      [
        { header: 'found', kind: 'status', get: (row) => row.found },
        { header: 'sha256', get: (row) => row.sha256 },
        { header: 'size', get: (row) => row.size, rank: 1 },
        { header: 'what', get: (row) => row.what, canWrap: true },
      ],
      (row) => row.sha256,
    )
    const { missing, damaged, orphans, database } = report
    output.status(
      `${plural(report.blobs, 'blob')}, ${formatBytes(report.bytes)} read: ${missing.length} missing, ${damaged.length} damaged, ${orphans.length} named by no row`,
    )
    if (report.ok) return
    const problem = ['ours', 'new'].includes(database.state)
      ? `${plural(missing.length, 'blob')} missing, ${plural(damaged.length, 'blob')} damaged`
      : database.message
    throw new AppError('internal', 'storage_damaged', problem, {
      hint: 'trainyard restore makes a whole directory of a backup; nothing was changed here',
    })
  },
})

interface Finding {
  readonly found: string
  readonly sha256: string
  readonly size: string
  readonly what: string
}

function findingsOf({ missing, damaged, orphans }: StorageReport): readonly Finding[] {
  return [
    ...missing.map(({ sha256, named_by }) => ({
      found: 'MISSING',
      sha256,
      size: '',
      what: `named by ${named_by.join(', ')}`,
    })),
    ...damaged.map(({ sha256, size_bytes, actual_sha256, problem, named_by }) => ({
      found: 'DAMAGED',
      sha256,
      size: formatBytes(size_bytes),
      what: `${actual_sha256 === null ? `cannot be read: ${problem}` : `its digest is ${actual_sha256}`}; named by ${named_by.join(', ') || 'no row'}`,
    })),
    ...orphans.map(({ sha256, size_bytes, is_kept }) => ({
      found: 'ORPHAN',
      sha256,
      size: formatBytes(size_bytes),
      what: is_kept ? 'this database never had it: it stays' : 'let go: the sweeper deletes it after its grace',
    })),
  ]
}
