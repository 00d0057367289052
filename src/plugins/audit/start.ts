/**
 * Keeps the audit log: a row, and a line of a file where one was asked for, before the answer is sent. What cannot be kept is
 * said in the server's log, and the answer is given all the same: what it tells of has happened.
 */
import { appendFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { toWriteError } from '#base/errors/file-errors.js'
import type { Route } from '#contract/endpoints/table.js'
import type { Seen } from '#service/http/environment.js'
import { sendsFile } from '#service/http/middleware/auth.js'
import type { PluginStart } from '#service/plugin.js'
import type { auditSettings } from './settings.js'
import { deleteOldAuditEvents, insertAuditEvent } from './storage/audit-events.js'
import type { AuditEvent } from './wire.js'

const HOUR_MS = 3_600_000
/** Longest name of a thing that is kept: a client may write any path. */
const MOST_NAMED = 200

type NewEvent = Parameters<typeof insertAuditEvent>[1]

/** @param place `database`, `-` or the path of a file */
export async function startAudit(core: PluginStart<typeof auditSettings>, place: string): Promise<void> {
  const { db, ids, logger } = core.context
  const writeLine = await openLines(place)
  let writing: Promise<void> = Promise.resolve()
  const keep = async (event: NewEvent): Promise<void> => {
    const kept = await insertAuditEvent(db, event)
    // a line stands behind those before it, whoever waits
    writing = writing.catch(() => undefined).then(() => writeLine(kept))
    await writing
  }
  core.addWitness({
    wants: isAudited,
    async see(seen) {
      const event = eventOf(seen, ids.uuid())
      if (event === null) return
      await keep(event).catch((error: unknown) => logger.error({ err: error, event }, 'audit.not_kept'))
    },
  })
  core.lifetimes.add('audit log', async () => writing.catch(() => undefined))
  forgetOld(core)
}

/** Who asked: the key, or, by a code, that of the session it began. */
function eventOf({ c, route, client, end }: Seen, id: string): NewEvent | null {
  const answer = 'answer' in end ? (end.answer as Readonly<Record<string, unknown>>) : {}
  const textOf = (name: string): string | null => {
    const value = answer instanceof Response ? undefined : answer[name]
    return typeof value === 'string' ? value.slice(0, MOST_NAMED) : null
  }
  const { principal } = c.var
  const entity = principal?.entity ?? textOf('entity')
  const keyId = principal?.keyId ?? textOf('key_id')
  // a code that opens nothing is nobody's
  if (entity === null || keyId === null) return null
  const target = Object.entries(c.req.param()).map(([name, value]) => [name, String(value).slice(0, MOST_NAMED)])
  return {
    ...{ id, entity, key_id: keyId, client },
    project: principal === undefined ? textOf('project') : principal.project,
    session_id: principal?.sessionId ?? null,
    action: route.key,
    target: Object.fromEntries(target) as Record<string, string>,
    made_id: textOf('id'),
    error: 'error' in end ? (end.error instanceof AppError ? end.error.code : 'internal_error') : null,
    request_id: c.get('requestId'),
  }
}

/** @returns what appends a line; each opens the file anew, so that it may be moved away at any time */
async function openLines(place: string): Promise<(event: AuditEvent) => Promise<void>> {
  if (place === 'database') return () => Promise.resolve()
  if (place === '-') return async (event) => void process.stdout.write(`${JSON.stringify(event)}\n`)
  if (place === '') {
    throw new InvalidRequestError('invalid_setting', '--audit is empty, expected database, - or the path of a file')
  }
  const file = resolve(place)
  const append = (text: string): Promise<void> => appendFile(file, text, { mode: 0o600 })
  await append('').catch((error: unknown) => {
    throw toWriteError(error, file) ?? error
  })
  return (event) => append(`${JSON.stringify(event)}\n`)
}

function forgetOld({
  context: { db, logger },
  settings,
  onDuty,
  onListening,
  lifetimes,
}: Parameters<typeof startAudit>[0]): void {
  const { auditKeepMs } = settings
  if (auditKeepMs === null) return
  const look = (): void => {
    onDuty('audit', () => deleteOldAuditEvents(db, auditKeepMs)).catch((error: unknown) =>
      logger.error({ err: error }, 'audit.old_not_deleted'),
    )
  }
  let timer: NodeJS.Timeout | null = null
  lifetimes.add('audit log: what is old', () => void (timer !== null && clearInterval(timer)))
  onListening(() => {
    look()
    timer = setInterval(look, HOUR_MS).unref()
  })
}

/** A browser's session begins and ends with a key of any scope, and by a code with none. */
const SESSIONS = '/v1/preview/sessions'

/** Said by a run that goes on, over and over: what it is, is noted where it begins. */
const OF_RUNS: ReadonlySet<string> = new Set([
  'POST /api/v1/forward_backward',
  'POST /api/v1/optim_step',
  'POST /api/v1/session_heartbeat',
  'POST /files/{entity}/{project}/{run}/file_stream',
  'POST /v1/preview/models/{model_id}/log',
  'POST /v1/preview/rollouts',
  'POST /v1/preview/rollouts/{rollout_id}/finish',
  'POST /v1/uploads/{upload_id}/parts',
])

/**
 * Whatever changes something, whatever hands out a file, and how browsers sign in and out. Not what models are asked, what
 * runs say of themselves many times a minute, or what workers do: those are counted elsewhere.
 */
function isAudited(route: Route): boolean {
  if (sendsFile(route)) return true
  if (route.method === 'GET') return false
  if (route.path === SESSIONS || route.path.startsWith(`${SESSIONS}/`)) return true
  const changes = route.scope === 'write' || route.scope === 'admin'
  return changes && route.isAdmitted !== true && !OF_RUNS.has(route.key)
}
