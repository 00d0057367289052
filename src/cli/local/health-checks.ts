/**
 * Checks of `trainyard system-check` that need no numeric code: room on the disk, and the service over HTTP.
 *
 * A check never throws: what goes wrong is its result.
 */
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { SystemCheck } from '#contract/wire/health.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import type { CommandContext } from '../command/context.js'
import { fingerprint } from '../config/credentials.js'
import { messageOf } from '../input/input-file.js'
import { formatBytes } from '../terminal/format.js'

/** One result, as `--json` prints it. */
export interface Check {
  readonly scope: 'local' | 'server'
  readonly name: string
  readonly status: 'pass' | 'warn' | 'fail'
  readonly duration_ms: number
  readonly message: string
  readonly hint: string | null
}

/** Room for data; less than 2 GB is a warning. */
export async function checkDisk({ config, clock }: CommandContext): Promise<Check> {
  const startMs = clock.monotonicMs()
  const base = { scope: 'local', name: 'data directory' } as const
  const dataDir = config.get('data-dir') ?? config.paths.dataDir
  for (let path = dataDir; ; path = dirname(path)) {
    const facts = await statfs(path).catch(() => null)
    if (facts === null && dirname(path) !== path) continue
    const freeBytes = facts === null ? 0 : facts.bavail * facts.bsize
    const isLow = freeBytes < 2e9
    const hint = isLow ? 'trainyard checkpoints delete <model> --keep latest --keep best:val/reward' : null
    const message = `${dataDir} has ${formatBytes(freeBytes)} free`
    return { ...base, status: isLow ? 'warn' : 'pass', duration_ms: clock.monotonicMs() - startMs, message, hint }
  }
}

/** What to do about a part that fails or is slow. */
const HINTS: Readonly<Record<string, string>> = {
  database: 'look at the disk that holds the data directory, and at what else writes to it',
  blob_store: 'look at the disk that holds the data directory, and at what else writes to it',
  cpu_queue: 'the log of the service says why, under job.dispatch_failed',
  gpu_queue: 'the log of the service says why; the model may still be loading, or the machine be busy',
  worker: 'run npm ci again where the service runs; node and the package must be for that platform',
}

function toCheck(check: SystemCheck): Check {
  const { name, success, is_slow: isSlow, duration_ms, message, errors, warnings } = check
  const time = `${Math.round(duration_ms)} ms`
  // a server of an earlier version names none
  const known = warnings ?? []
  const did = [`${message}, ${time}${isSlow ? ', which is slow' : ''}`, ...known].join('; ')
  return {
    scope: 'server',
    name,
    status: success ? (isSlow || known.length > 0 ? 'warn' : 'pass') : 'fail',
    duration_ms,
    message: success ? did : `${errors.join('; ')} (${time})`,
    hint: success && !isSlow ? null : (HINTS[name] ?? null),
  }
}

/** Which key is used, and whom the service takes it for; none where a service of an earlier version cannot say. */
async function checkKey({ clock, credential, signal }: CommandContext, client: Client): Promise<readonly Check[]> {
  const startMs = clock.monotonicMs()
  const key = await credential()
  if (key === null) return []
  const named = `${fingerprint(key.key)} (from ${key.origin})`
  const check = (status: 'pass' | 'fail', message: string, hint: string | null): readonly Check[] => [
    { scope: 'server', name: 'key', status, duration_ms: clock.monotonicMs() - startMs, message, hint },
  ]
  try {
    const { entity } = await client.whoami({ signal })
    return check('pass', `${named}, entity ${entity}`, null)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ApiError && error.status === 404) return []
    return check('fail', `${named}: ${messageOf(error)}`, 'trainyard whoami shows which key is used')
  }
}

/** Whether the service answers, and its own checks; one failed check when it does not. */
export async function checkServer(context: CommandContext, client: Client): Promise<readonly Check[]> {
  const { clock, config, signal, version } = context
  const startMs = clock.monotonicMs()
  const scope = 'server' as const
  try {
    const health = await client.health({ signal })
    const reached: Check = {
      scope,
      name: 'reachable',
      status: 'pass',
      duration_ms: clock.monotonicMs() - startMs,
      message: `${config.get('server')}, version ${health.version} (client ${version})`,
      hint: null,
    }
    const key = await checkKey(context, client)
    const result = await client.systemCheck({ signal })
    if (result.checks !== undefined) return [reached, ...key, ...result.checks.map(toCheck)]
    const queues = (['cpu_queue', 'gpu_queue'] as const).map((name): Check => {
      const { success, duration_ms, errors } = result[name]
      const message = success ? `${Math.round(duration_ms)} ms` : errors.join('; ')
      return { scope, name, status: success ? 'pass' : 'fail', duration_ms, message, hint: null }
    })
    const database: Check = {
      scope,
      name: 'database',
      status: result.database ? 'pass' : 'fail',
      duration_ms: 0,
      message: result.database ? 'a row was written and read back' : 'not usable',
      hint: null,
    }
    return [reached, ...key, database, ...queues]
  } catch (error) {
    signal.throwIfAborted()
    const duration_ms = clock.monotonicMs() - startMs
    const hint = 'start the service with `trainyard serve`, or set --server / TRAINYARD_URL'
    return [{ scope, name: 'reachable', status: 'fail', duration_ms, message: messageOf(error), hint }]
  }
}
