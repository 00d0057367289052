/**
 * What the parts of the W&B API share: who asks, where, and the words of its answers.
 */

import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import type { Principal } from '#service/operations/access/principal.js'
import { checkProject } from '#service/operations/access/tenant.js'
import type { ServiceContext } from '#service/operations/context.js'
import type { Arguments, Field, Fields } from './execute-query.js'
import type { Grant } from './wire.js'

/** What the parts of the W&B API work with. */
export type WandbContext = Pick<
  ServiceContext,
  'db' | 'blobs' | 'bodies' | 'ids' | 'clock' | 'logger' | 'exporter' | 'baseModels' | 'requestSweep'
>

/** One request. */
export interface WandbCall {
  readonly context: WandbContext
  readonly principal: Principal
  /** The address to send bytes to or to fetch them from. */
  addressOf(grant: Grant): string
}

/** The entity of the key; another one's things do not exist for it. @throws {NotFoundError} `entity_not_found` */
export function ownEntity(call: WandbCall, named: JsonValue | undefined): string {
  const { entity } = call.principal
  if (typeof named === 'string' && named !== '' && named !== entity) {
    throw new NotFoundError('entity_not_found', `entity "${named.slice(0, 100)}" was not found`)
  }
  return entity
}

/** The project a field or a mutation names. @throws {AppError} `forbidden` for one that is not open to the key */
export function ownProject(call: WandbCall, named: string): string {
  return checkProject(call.principal, named) ?? named
}

/** @throws {InvalidRequestError} `invalid_value` if it is missing or no text */
export function textOf(args: Arguments, name: string, maxLength = 512): string {
  const value = args[name]
  if (typeof value !== 'string' || value === '' || value.length > maxLength) {
    throw new InvalidRequestError('invalid_value', `${name} must be a text of 1 to ${maxLength} characters`)
  }
  return value
}

/** A text, or null when it is missing. */
export function optionalText(args: Arguments, name: string): string | null {
  const value = args[name]
  return typeof value === 'string' && value !== '' ? value : null
}

/** A mutation's `input`. */
export function inputOf(args: Arguments): Arguments {
  const { input } = args
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input as Arguments
  throw new InvalidRequestError('invalid_value', 'input must be an object')
}

/** JSON text of an object, checked. @throws {InvalidRequestError} `invalid_value` */
export function jsonObjectText(args: Arguments, name: string): string | null {
  const text = optionalText(args, name)
  if (text === null) return null
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return JSON.stringify(value)
  } catch {
    // told below, with everything else that is no object
  }
  throw new InvalidRequestError('invalid_value', `${name} must be the JSON text of an object`)
}

export function toIso(ms: number): string {
  return new Date(ms).toISOString()
}

/** A list as W&B pages it: `first` items after the cursor `after`, which is the index of the last one. */
export function toConnection<T>(
  items: readonly T[],
  args: Arguments,
  toNode: (item: T) => Field,
  edge?: (item: T) => Fields,
): Fields {
  const after = optionalText(args, 'after')
  const start = after === null ? 0 : Number.parseInt(after, 10) + 1
  const first = typeof args['first'] === 'number' ? Math.min(Math.max(Math.trunc(args['first']), 1), 1000) : 100
  if (!Number.isSafeInteger(start))
    throw new InvalidRequestError('invalid_cursor', 'after must be a cursor of this list')
  const page = items.slice(start, start + first)
  return {
    totalCount: items.length,
    pageInfo: {
      __typename: 'PageInfo',
      hasNextPage: start + page.length < items.length,
      endCursor: page.length === 0 ? null : String(start + page.length - 1),
    },
    edges: page.map((item, index) => ({ cursor: String(start + index), node: toNode(item), ...edge?.(item) })),
  }
}

/** A project: a name under an entity; nothing more is stored of it. */
export function projectInfo(entity: string, project: string): Fields {
  return {
    __typename: 'Project',
    id: `project-${entity}/${project}`,
    internalId: Buffer.from('ProjectInternalId:1').toString('base64'),
    name: project,
    entityName: entity,
    isRegistry: false,
    readOnly: false,
    entity: { id: entity, name: entity },
  }
}
