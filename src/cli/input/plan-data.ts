/**
 * What `--plan` asks of its input. Rows are part of the request while they are small, so that planning leaves nothing on the server; uploaded beyond.
 */
import { UsageError } from '../command/errors.js'

/** As base64 well below what an address of data may hold. */
const MAX_INLINE_BYTES = 4 * 1024 ** 2

/** @param upload stores the rows and returns their address */
export async function addressForPlan(rows: Blob, upload: () => Promise<string>): Promise<string> {
  if (rows.size > MAX_INLINE_BYTES) return upload()
  return `data:application/jsonl;base64,${Buffer.from(await rows.arrayBuffer()).toString('base64')}`
}

/** Of submitting and following, planning, and showing what would be sent, one. @throws {UsageError} `conflicting_options` */
export function assertOneMode(flags: {
  readonly plan: boolean
  readonly dryRun: boolean
  readonly watch: boolean
}): void {
  const given = [flags.plan && '--plan', flags.dryRun && '--dry-run', flags.watch && '--watch'].filter(
    (name) => name !== false,
  )
  if (given.length < 2) return
  throw new UsageError('conflicting_options', `${given.join(' and ')} exclude each other: give one of them`, {
    hint: '--dry-run checks the file here, --plan asks the server what the job would do, --watch follows it',
  })
}
