/**
 * What is asked of rollouts: open, end, list, read. What is recorded below their addresses is `doors.ts` and `recorder.ts`.
 */
import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { withRecordedSets } from '#base/sampling-record.js'
import type { JsonObject } from '#base/util/json.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext, Tenant } from '#service/operations/context.js'
import type { ChatService } from '#service/operations/generation/chat/chat.js'
import { hashSecret, newSecret } from '#service/storage/api-keys.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { RecordedCall } from './recorder.js'
import { type RolloutResult, rewardOf } from './result.js'
import {
  countOpen,
  deleteRollout,
  endRollout,
  findRollout,
  findSession,
  insertRollout,
  listCalls,
  listOfRun,
  listOpenSessions,
  listRollouts,
  type RolloutRecord,
  setToken,
} from './storage/rollouts.js'
import { toTrajectory } from './trajectory.js'
import type {
  CreatedRollout,
  CreateRolloutRequest,
  FinishRolloutRequest,
  ListRolloutsQuery,
  RecordedRollout,
  RolloutGroupsQuery,
} from './wire.js'

/** Begins as API keys do: what looks like one is never logged. */
export const TOKEN_PREFIX = 'ty_rollout_'
/** Rollouts of one entity that have not ended. */
export const MOST_OPEN = 4096
/** Read of a run at once. */
const PART = 200
/** Rollouts of one run that are read as rows. */
const MOST_OF_RUN = 50_000
/** An answer may be on its way to its row while its rollout ends. */
const TRIES = 8

type RolloutsContext = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'logger' | 'requestSweep'>

interface RecordedRolloutService {
  /** @param origin what its address begins with */
  create(
    principal: Principal,
    request: CreateRolloutRequest,
    options: { readonly origin: string; readonly idempotencyKey: string | null },
  ): Promise<CreatedRollout>
  list(principal: Principal, query: ListRolloutsQuery): Promise<List<RecordedRollout>>
  get(principal: Principal, id: string): Promise<RecordedRollout & { trajectory: JsonObject | null }>
  finish(principal: Principal, id: string, request: FinishRolloutRequest): Promise<RecordedRollout>
  delete(principal: Principal, id: string): Promise<void>
  /** Lines of JSON, in pieces; none where no rollout of the run has ended. */
  groups(principal: Principal, query: RolloutGroupsQuery): Promise<AsyncIterable<string>>
}

export function createRolloutService(
  context: RolloutsContext,
  { chat, ended }: { readonly chat: Pick<ChatService, 'describeModel'>; readonly ended: (entity: string) => void },
): RecordedRolloutService {
  const { db, ids, requestSweep } = context
  const bodies = createBodies(context)
  const { required, end, finishOne } = createEnding(context, bodies)

  return {
    create: async (principal, request, { origin, idempotencyKey }) => {
      await chat.describeModel(principal, request.model)
      const scope = idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'rollouts', key: idempotencyKey }
      const digest = digestOf(request)
      const id = ids.uuid()
      const token = newSecret(ids, TOKEN_PREFIX)
      const tokenHash = hashSecret(token)
      const made = await inTransaction(db, async (transaction) => {
        const before = scope === null ? null : await findIdempotent(transaction, scope, digest)
        if (before !== null && (await findRollout(transaction, principal, before)) !== null) {
          // nobody knows the token of before any more: whoever asks again has not had it
          await setToken(transaction, before, tokenHash)
          return before
        }
        const open = await countOpen(transaction, principal.entity)
        if (open >= MOST_OPEN) throw tooMany(open)
        await insertRollout(transaction, {
          ...{ id, ...ownerOf(principal), keyId: principal.keyId, usageProject: principal.usageProject },
          ...{ tokenHash, kind: request.sessions ? 'sessions' : 'rollout', parentId: null, session: null },
          ...{ model: request.model, run: request.run, task: request.task, group: request.group },
          sampling: withRecordedSets(request.sampling),
          ...{ maxTurns: request.max_turns, maxTokens: request.max_tokens },
          expires: { inMs: request.expires_in_seconds * 1000 },
        })
        if (scope !== null) await rememberIdempotent(transaction, scope, digest, id)
        return id
      })
      const wire = toWire(await required(principal, made))
      return { ...wire, base_url: `${origin}/r/${token}/v1`, api_key: token }
    },
    list: async (principal, { limit = DEFAULT_PAGE_LIMIT, ...query }) => {
      const page = await listRollouts(db, principal, { ...query, limit })
      return toList(page.items.map(toWire), page.hasMore)
    },
    get: async (principal, id) => {
      const rollout = await required(principal, id)
      return { ...toWire(rollout), trajectory: await bodies.trajectoryOf(rollout) }
    },
    finish: async (principal, id, request) => {
      if (rewardOf(request.rewards) === null) {
        throw new InvalidRequestError('invalid_reward', 'the sum of score times weight must be finite, at most 1e30', {
          param: 'rewards',
        })
      }
      const rollout = await required(principal, id)
      if (request.session != null) {
        const session = rollout.kind === 'sessions' ? await findSession(db, rollout.id, request.session) : null
        if (session !== null) return toWire(await finishOne(session, request).finally(() => ended(rollout.entity)))
        throw new NotFoundError('rollout_not_found', `No request came with X-Session-ID '${request.session}'.`, {
          param: 'session',
        })
      }
      if (rollout.kind === 'sessions') {
        for (const sessionId of await listOpenSessions(db, rollout.id)) {
          const session = await findRollout(db, rollout, sessionId)
          const left = { ...request, rewards: {}, error: request.error ?? LEFT }
          if (session !== null) await end(session, left)
        }
      }
      return toWire(await finishOne(rollout, request).finally(() => ended(rollout.entity)))
    },
    delete: async (principal, id) => {
      const rollout = await required(principal, id)
      await inTransaction(db, (transaction) => deleteRollout(transaction, rollout.id))
      requestSweep()
    },
    groups: async (principal, query) => toLines(await collectGroups(context, principal, query), bodies.trajectoryOf),
  }
}

/** How rollouts are found, and how they end. */
function createEnding({ db }: Pick<RolloutsContext, 'db'>, bodies: ReturnType<typeof createBodies>) {
  async function required(tenant: Tenant, id: string): Promise<RolloutRecord> {
    const rollout = await findRollout(db, tenant, id)
    if (rollout !== null) return rollout
    throw new NotFoundError('rollout_not_found', `No rollout found with id '${id.slice(0, 100)}'.`, {
      hint: 'rollouts are kept for as long as data of jobs; GET /v1/preview/rollouts lists them',
    })
  }

  /** Joins its calls and ends it. Null: it has ended already. */
  async function end(rollout: RolloutRecord, request: FinishRolloutRequest): Promise<RolloutRecord | null> {
    const result = toResult(request)
    const { task, group } = request
    for (let tries = 0; tries < TRIES; tries++) {
      const calls = await bodies.callsOf(rollout.id)
      const now = (await findRollout(db, rollout, rollout.id)) ?? rollout
      const metadata = { run: now.run, task: task ?? now.task, group: group ?? now.group }
      const trajectory = result.error === null ? toTrajectory(now, calls, result, metadata) : null
      const body = trajectory === null ? null : await bodies.put(trajectory)
      const isFailed = result.error !== null || (trajectory === null && rollout.kind === 'rollout')
      const outcome = isFailed && result.error === null ? { ...result, reward: null, error: NO_TURN } : result
      const ended = await inTransaction(db, async (transaction) => {
        const status = isFailed ? 'failed' : 'finished'
        return endRollout(transaction, rollout.id, { status, result: outcome, body, task, group }, calls.length)
      })
      if (ended !== null) return ended
      if ((await findRollout(db, rollout, rollout.id))?.endedAtMs !== null) return null
    }
    throw new ConflictError('rollout_busy', 'answers of the rollout are still being recorded', {
      hint: 'end it when its program has ended',
    })
  }

  async function finishOne(rollout: RolloutRecord, request: FinishRolloutRequest): Promise<RolloutRecord> {
    if (rollout.status === 'open') {
      const ended = await end(rollout, request)
      if (ended !== null) return ended
    }
    const now = (await findRollout(db, rollout, rollout.id)) ?? rollout
    // sent twice it means the same
    if (now.result !== null && now.result.digest === digestOf(request)) return now
    throw new ConflictError('rollout_ended', `the rollout is ${now.status}`, {
      hint: now.status === 'expired' ? 'open rollouts with a larger expires_in_seconds' : 'a rollout ends once',
    })
  }

  return { required, end, finishOne }
}

const NO_TURN = { type: 'no_recorded_turn', message: 'no answer of the rollout was delivered' }
const LEFT = { type: 'not_finished', message: 'its address ended before it did' }
const EXPIRED = { type: 'rollout_expired', message: 'nobody ended it in its time' }

/** Blobs of calls and trajectories. */
function createBodies({ blobs, db }: Pick<RolloutsContext, 'blobs' | 'db'>) {
  async function read<T>(sha256: string): Promise<T> {
    const parts: Buffer[] = []
    for await (const part of await blobs.openRead(sha256)) parts.push(Buffer.from(part as Uint8Array))
    return JSON.parse(Buffer.concat(parts).toString()) as T
  }

  return {
    put: (trajectory: JsonObject) => blobs.put([Buffer.from(JSON.stringify(trajectory))]),
    callsOf: async (rolloutId: string): Promise<RecordedCall[]> => {
      const calls: RecordedCall[] = []
      for (const sha256 of await listCalls(db, rolloutId)) calls.push(await read<RecordedCall>(sha256))
      return calls
    },
    trajectoryOf: async ({ bodySha256 }: RolloutRecord): Promise<JsonObject | null> =>
      bodySha256 === null ? null : read<JsonObject>(bodySha256),
  }
}

/** Rollouts that have ended, by task and group. */
async function collectGroups(
  { db }: Pick<RolloutsContext, 'db'>,
  tenant: Tenant,
  query: RolloutGroupsQuery,
): Promise<ReadonlyMap<string, readonly RolloutRecord[]>> {
  const groups = new Map<string, RolloutRecord[]>()
  let after: string | undefined
  for (let count = 0; count < MOST_OF_RUN; ) {
    const part = await listOfRun(db, tenant, { ...query, after, limit: PART })
    for (const rollout of part) {
      if (rollout.status === 'open') continue
      // below its address nobody asked
      if (rollout.status === 'expired' && rollout.turns === 0) continue
      const key = JSON.stringify([rollout.task, rollout.group])
      const group = groups.get(key) ?? []
      group.push(rollout)
      groups.set(key, group)
    }
    if (part.length < PART) break
    count += part.length
    after = part.at(-1)?.id
  }
  return groups
}

/** A line of JSON for each group, in pieces. */
async function* toLines(
  groups: ReadonlyMap<string, readonly RolloutRecord[]>,
  trajectoryOf: (rollout: RolloutRecord) => Promise<JsonObject | null>,
): AsyncGenerator<string> {
  for (const rollouts of groups.values()) {
    const [first] = rollouts
    if (first === undefined) continue
    // one at a time: a run that names no tasks is a single group, of any size
    let before = '{"trajectories":['
    for (const rollout of rollouts) {
      const trajectory = rollout.status === 'finished' ? await trajectoryOf(rollout) : null
      if (trajectory === null) continue
      yield before + JSON.stringify(trajectory)
      before = ','
    }
    if (before !== ',') yield before
    const exceptions = rollouts.flatMap(({ status, result }) => {
      if (status === 'expired') return [EXPIRED]
      return status === 'failed' ? [result?.error ?? NO_TURN] : []
    })
    const metadata = { run: first.run, task: first.task, group: first.group }
    yield `],"exceptions":${JSON.stringify(exceptions)},"metadata":${JSON.stringify(metadata)}}\n`
  }
}

function toResult(request: FinishRolloutRequest): RolloutResult {
  const { rewards, metrics, error = null } = request
  return { rewards, metrics, error, reward: error === null ? rewardOf(rewards) : null, digest: digestOf(request) }
}

function tooMany(open: number): AppError {
  return new AppError(
    'rate_limited',
    'too_many_rollouts',
    `${open} rollouts have not ended; an entity may have ${MOST_OPEN}`,
    { hint: 'end some, or open them for a shorter time', details: { retry_after_seconds: 60 } },
  )
}

const toTime = (timeMs: number): string => new Date(timeMs).toISOString()

function toWire(rollout: RolloutRecord): RecordedRollout {
  const { result } = rollout
  return {
    id: rollout.id,
    object: 'rollout',
    ...{ status: rollout.status, kind: rollout.kind, model: rollout.model },
    ...{ run: rollout.run, task: rollout.task, group: rollout.group, session: rollout.session },
    ...{ sampling: rollout.sampling, max_turns: rollout.maxTurns, max_tokens: rollout.maxTokens },
    ...{ turns: rollout.turns, sampled_tokens: rollout.sampledTokens },
    ...{ undelivered_calls: rollout.undeliveredCalls, overridden_calls: rollout.overriddenCalls },
    reward: result?.reward ?? null,
    rewards: result?.rewards ?? {},
    metrics: result?.metrics ?? {},
    error: result?.error ?? (rollout.status === 'expired' ? EXPIRED : null),
    created_at: toTime(rollout.createdAtMs),
    expires_at: toTime(rollout.expiresAtMs),
    ended_at: rollout.endedAtMs === null ? null : toTime(rollout.endedAtMs),
  }
}
