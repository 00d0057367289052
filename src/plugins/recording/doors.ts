/**
 * What stands below the address of a rollout: the server's own paths, asked for whoever opened the rollout, in whatever
 * format. The token opens this rollout and nothing else: its model answers whatever model is named, nothing is stored, and
 * nothing stored is read.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { AppOptions, RequestContext } from '#service/http/environment.js'
import { connectionOf } from '#service/http/event-stream.js'
import { noteOwner } from '#service/http/owner.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { PluginStart } from '#service/plugin.js'
import { hashSecret } from '#service/storage/api-keys.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { createRecorder, type Recorder } from './recorder.js'
import { MOST_OPEN, TOKEN_PREFIX } from './rollouts.js'
import {
  beginTurn,
  countOpen,
  findByToken,
  findSession,
  insertRollout,
  type RolloutRecord,
} from './storage/rollouts.js'
import { LONGEST_SESSION } from './wire.js'

const SESSION_HEADER = 'x-session-id'
/** Of the program's request, what the path it is passed on to reads. */
const PASSED_HEADERS = ['x-request-id', 'anthropic-version', 'anthropic-beta', 'accept-language']

type DoorContext = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'logger'>

interface DoorParts {
  readonly ask: PluginStart['ask']
  readonly admission: AppOptions['admission']
}

interface Doors {
  /** Passes a request on to a path of the server, and records its answers. */
  record(c: RequestContext, token: string, door: Door): Promise<Response>
  /** The same of what nobody samples for. */
  pass(c: RequestContext, token: string, door: Door): Promise<Response>
  /** @param isListed in a list of one */
  describe(c: RequestContext, token: string, isListed: boolean): Promise<Response>
}

interface Door {
  readonly path: string
  body(): Promise<object>
}

export function createDoors(context: DoorContext, { ask, admission }: DoorParts): Doors {
  const { db, ids } = context

  /** Whom the token was given to. @throws {AppError} `invalid_rollout_token` */
  async function open(c: RequestContext, token: string): Promise<RolloutRecord> {
    const found = token.startsWith(TOKEN_PREFIX) ? await findByToken(db, hashSecret(token)) : null
    if (found === null || found.status !== 'open') throw closed()
    noteOwner(c, found.entity)
    return found
  }

  /** The rollout that a request belongs to: the token's own, or the one of its session. */
  async function rolloutOf(c: RequestContext, opened: RolloutRecord): Promise<RolloutRecord> {
    if (opened.kind === 'rollout') return opened
    const session = c.req.header(SESSION_HEADER)?.trim() ?? ''
    if (session === '' || session.length > LONGEST_SESSION) throw withoutSession()
    const known = await findSession(db, opened.id, session)
    if (known !== null) return known
    const id = ids.uuid()
    return inTransaction(db, async (transaction) => {
      if ((await countOpen(transaction, opened.entity)) >= MOST_OPEN) throw tooManySessions()
      const { status: _, result: __, expiresAtMs, ...shared } = opened
      const own = { id, kind: 'rollout', parentId: opened.id, session, tokenHash: null } as const
      await insertRollout(transaction, { ...shared, ...own, expires: { atMs: expiresAtMs } })
      // another request of the session may have come first
      const made = await findSession(transaction, opened.id, session)
      if (made === null) throw new AppError('internal', 'rollout_lost', 'the rollout of a session was not found')
      return made
    })
  }

  async function begin(rollout: RolloutRecord): Promise<RolloutRecord> {
    const begun = rollout.status === 'open' ? await beginTurn(db, rollout.id) : null
    if (begun !== null) return begun
    if (rollout.status !== 'open') throw closed()
    throw new AppError('permission', 'rollout_limit_reached', 'the rollout has had all of its turns or tokens', {
      hint: 'open rollouts with larger max_turns or max_tokens',
      details: { max_turns: rollout.maxTurns, max_tokens: rollout.maxTokens },
    })
  }

  async function send(c: RequestContext, principal: Principal, path: string, body: JsonObject | null) {
    const headers = new Headers(body === null ? {} : { 'content-type': 'application/json' })
    for (const name of PASSED_HEADERS) {
      const value = c.req.header(name)
      if (value !== undefined) headers.set(name, value)
    }
    const { signal } = c.req.raw
    const init = body === null ? { headers, signal } : { method: 'POST', headers, signal, body: stringifyExact(body) }
    return ask(principal, new Request(`http://localhost${path}`, init), c)
  }

  return {
    record: async (c, token, { path, body }) => {
      const opened = await open(c, token)
      const given = (await body()) as JsonObject
      const rollout = await begin(await rolloutOf(c, opened))
      const recorder = createRecorder(context, rollout)
      const watch = watchDelivery(c, recorder, context.logger)
      try {
        // counted from here on by the path that it is passed on to
        admission.leave(c)
        const asked = bound(path, given, rollout.model)
        return watch(await send(c, { ...principalOf(rollout), listener: recorder }, path, asked))
      } catch (error) {
        await recorder.settle('refused')
        throw error
      }
    },
    pass: async (c, token, { path, body }) => {
      const opened = await open(c, token)
      return send(c, principalOf(opened), path, { ...((await body()) as JsonObject), model: opened.model })
    },
    describe: async (c, token, isListed) => {
      const opened = await open(c, token)
      const name = opened.model.split('/').map(encodeURIComponent).join('/')
      const answer = await send(c, principalOf(opened), `/v1/models/${name}`, null)
      if (!isListed || answer.status !== 200) return answer
      const card = (await answer.json()) as JsonValue
      return c.json({ object: 'list', data: [card] })
    },
  }
}

/** As whose request it is passed on: the rollout's owner, as long as the key is valid that opened it. */
function principalOf({ entity, project, keyId, usageProject }: RolloutRecord): Principal {
  return { entity, project, keyId, usageProject, keyPrefix: '', sessionId: null, scope: 'read' }
}

/** The request as it may be asked in a rollout. @throws {InvalidRequestError} for what would reach beyond it */
function bound(path: string, given: JsonObject, model: string): JsonObject {
  const request: Record<string, JsonValue> = { ...given, model }
  const refuse = (param: string, hint: string): never => {
    throw new InvalidRequestError('unsupported_parameter', `${param} is not supported in a rollout`, { param, hint })
  }
  if (path === '/v1/responses') {
    const { previous_response_id: previous = null } = given
    if (previous !== null) refuse('previous_response_id', 'send all items: nothing is stored in a rollout')
    request['store'] = false
  }
  const { best_of: bestOf = null, n = null } = given
  if (path === '/v1/completions' && bestOf !== null && bestOf !== (n ?? 1)) {
    refuse('best_of', 'leave it out: an answer that is thrown away would be trained')
  }
  return request
}

/** Sees whether an answer reaches its client, and tells the recorder. @returns passes the answer on */
function watchDelivery(c: RequestContext, recorder: Recorder, logger: DoorContext['logger']) {
  const connection = connectionOf(c) as
    | (ReturnType<typeof connectionOf> & { readonly writableFinished?: boolean })
    | null
  let isOver = false
  const settle = async (outcome: Parameters<Recorder['settle']>[0]): Promise<void> => {
    if (isOver) return
    isOver = true
    await recorder.settle(outcome).catch((error: unknown) => logger.error({ err: error }, 'recording.settle_failed'))
  }
  let isRefused = false
  connection?.once('close', () => {
    const delivered = connection.writableFinished === true ? 'delivered' : 'undelivered'
    void settle(isRefused ? 'refused' : delivered)
  })
  return (answer: Response): Response => {
    isRefused = answer.status >= 400
    if (connection !== null) return answer
    // called without a port: what is read has arrived
    if (isRefused || answer.body === null) {
      void settle(isRefused ? 'refused' : 'delivered')
      return answer
    }
    const arrival = new TransformStream<Uint8Array, Uint8Array>({ flush: () => settle('delivered') })
    return new Response(answer.body.pipeThrough(arrival), answer)
  }
}

function closed(): AppError {
  return new AppError('authentication', 'invalid_rollout_token', 'the address opens no rollout', {
    hint: 'it ends with its rollout: POST /v1/preview/rollouts opens another one',
  })
}

function withoutSession(): InvalidRequestError {
  return new InvalidRequestError(
    'missing_session',
    `below this address each request names its rollout by X-Session-ID, of at most ${LONGEST_SESSION} characters`,
    { hint: 'send the header, or open a rollout without sessions' },
  )
}

function tooManySessions(): AppError {
  return new AppError(
    'rate_limited',
    'too_many_rollouts',
    `an entity may have ${MOST_OPEN} rollouts that have not ended`,
    {
      details: { retry_after_seconds: 60 },
    },
  )
}
