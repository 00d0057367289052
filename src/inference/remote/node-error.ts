/**
 * What a request is told when engine nodes could not serve it.
 */
import { fromErrorMessage } from '#base/errors/error-message.js'
import { AppError, type ErrorCategory, InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { WireError } from '#contract/processes/token-wire.js'
import type { EngineNode } from './engine-node.js'
import type { NodeFailure } from './node-request.js'

/** Nobody computes. @param baseModel whose nodes there are none of */
export function noEngineNode(baseModel: string): AppError {
  return new AppError('unavailable', 'no_engine_node', `no engine node serves base model "${baseModel}"`, {
    hint: 'start one with "trainyard engine-node --server URL", or start the server with --engines auto',
    details: { retry_after_seconds: 5 },
  })
}

/** @param reason as the end of a sentence about the node */
export function nodeLost({ name }: Pick<EngineNode, 'name'>, reason: string): AppError {
  return new AppError('unavailable', 'engine_restarting', `engine node "${name}" ${reason}`, {
    hint: 'send the request again',
    details: { retry_after_seconds: 1 },
  })
}

/** Whether another node may do what this one did not: it is gone, full, or lacks something of its own. */
export function isNodesOwn(failure: NodeFailure): boolean {
  return (
    failure.kind === 'lost' ||
    failure.status === 404 ||
    failure.status === 429 ||
    failure.status >= 500 ||
    failure.status === 401
  )
}

/** The failure as the client is told. */
export function toNodeError(node: EngineNode, failure: NodeFailure): AppError {
  // what a stranger's node says, or the system of its address, may be of somebody else: of a network that the reader does not see
  if (!node.isOperators) return strangersFailure(node, failure)
  if (failure.kind === 'lost') {
    return nodeLost(node, failure.detail === undefined ? failure.reason : `${failure.reason}: ${failure.detail}`)
  }
  const error = readError(failure.body)
  const own = ownMessage(error)
  // those of a device are of this machine's: the host ends with a device that it has lost
  if (own !== null && !own.code.startsWith('device_'))
    return OF_REQUESTS.has(own.category) ? own : nodeFailed(node, own)
  const message = error?.message ?? `answered with status ${failure.status}`
  if (failure.status === 400 || failure.status === 422) {
    return new InvalidRequestError('invalid_value', message, error?.param == null ? {} : { param: error.param })
  }
  return nodeLost(node, `failed: ${message}`)
}

/** What a client may have caused, and may hear as if no node were between. */
const OF_REQUESTS: ReadonlySet<ErrorCategory> = new Set([
  'invalid_request',
  'too_large',
  'rate_limited',
  'unavailable',
  'not_implemented',
])

/** The server works and its key is good: the fault is its node's, which is named. */
function nodeFailed({ name }: EngineNode, cause: AppError): AppError {
  return new AppError('unavailable', 'engine_failed', `engine node "${name}" failed: ${cause.message}`, {
    hint: cause.hint ?? 'send the request again; the log of the node says more',
    details: { retry_after_seconds: 1 },
    cause,
  })
}

/** One sentence for each way to fail, whatever was answered. */
function strangersFailure(node: EngineNode, failure: NodeFailure): AppError {
  if (failure.kind === 'lost') return nodeLost(node, failure.reason)
  if (failure.status !== 400 && failure.status !== 422) return nodeLost(node, 'failed')
  return new InvalidRequestError('invalid_value', `engine node "${node.name}" refused the request`, {
    hint: 'the node writes why on its own machine',
  })
}

/** An error in a stream, which vLLM also has for requests that it refuses. */
export function toStreamFailure(error: WireError): NodeFailure {
  const own = ownMessage(error)
  const status = own?.category === 'invalid_request' ? 400 : Number(error.code ?? 500)
  return { kind: 'refused', status: Number.isInteger(status) ? status : 500, body: JSON.stringify({ error }) }
}

function readError(body: string): WireError | null {
  try {
    const parsed: unknown = JSON.parse(body)
    if (!isJsonObject(parsed)) return null
    const error = isJsonObject(parsed['error']) ? parsed['error'] : parsed
    const { message, code, param, trainyard } = error
    if (typeof message !== 'string') return null
    const isCode = typeof code === 'string' || typeof code === 'number'
    return { message, code: isCode ? code : null, param: typeof param === 'string' ? param : null, trainyard }
  } catch {
    return null
  }
}

const CATEGORIES: Readonly<Record<ErrorCategory, true>> = {
  invalid_request: true,
  authentication: true,
  permission: true,
  not_found: true,
  conflict: true,
  too_large: true,
  rate_limited: true,
  unavailable: true,
  not_implemented: true,
  internal: true,
  cancelled: true,
}

/** An error of ours, with its category and field; what is behind it stays with the node. */
function ownMessage(error: WireError | null): AppError | null {
  const own = error?.trainyard
  if (!isJsonObject(own)) return null
  const { category, code, message, param, hint, details } = own
  if (typeof category !== 'string' || !Object.hasOwn(CATEGORIES, category)) return null
  if (typeof code !== 'string' || typeof message !== 'string') return null
  return fromErrorMessage({
    category: category as ErrorCategory,
    code,
    message,
    param: typeof param === 'string' ? param : null,
    hint: typeof hint === 'string' ? hint : null,
    details: isJsonObject(details) ? (details as JsonObject) : null,
  })
}
