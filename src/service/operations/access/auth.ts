/**
 * Who a bearer key belongs to, and for which project a request is counted.
 */

import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { findSession, isSessionToken } from '#service/storage/access/sessions.js'
import { findApiKey, isKeyValid } from '#service/storage/api-keys.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import type { Principal } from './principal.js'
import { checkProject } from './tenant.js'

export interface AuthService {
  /**
   * @param usageProject header that names the project to count the request for: `project` or `entity/project`
   * @throws {AppError} `missing_api_key` or `invalid_api_key`, also for a key that has expired; `forbidden` for a project
   *   that a key of another one names
   */
  authenticate(authorization: string | undefined, usageProject?: string | undefined): Promise<Principal>
  /** For whom this server goes on asking by itself. @throws {AppError} `invalid_api_key` once the key was revoked, or has expired */
  confirm(principal: Pick<Principal, 'keyId'>): Promise<void>
}

/** Clients of training loops may take no key that does not begin so: in front of a key it means nothing. */
const OTHER_SPELLING = /^tml-(?=ty_)/

export function createAuthService(db: DatabaseHandle): AuthService {
  /** What a token stands for, while it is valid. */
  async function findBearer(token: string) {
    if (isSessionToken(token)) {
      const session = await findSession(db, token)
      return session === null ? null : { ...session, sessionId: session.id }
    }
    const key = await findApiKey(db, token)
    return key === null ? null : { ...key, keyId: key.id, sessionId: null }
  }

  return {
    confirm: async ({ keyId }) => {
      if (await isKeyValid(db, keyId)) return
      throw new AppError(
        'authentication',
        'invalid_api_key',
        'the key that this was asked with is not valid any more',
        {
          hint: 'ask again with another key',
        },
      )
    },
    authenticate: async (authorization, usageProject) => {
      if (authorization === undefined || authorization.trim() === '') {
        throw new AppError('authentication', 'missing_api_key', 'Not authenticated', {
          hint: 'send Authorization: Bearer <API key>',
        })
      }
      const key = parseBearer(authorization)
      const record = key === null ? null : await findBearer(key.replace(OTHER_SPELLING, ''))
      if (record === null) {
        throw new AppError('authentication', 'invalid_api_key', 'Invalid authentication credentials', {
          hint: 'trainyard whoami shows which key was sent; a lost one is replaced where the data lies: trainyard keys create --local',
        })
      }
      const tenant = { entity: record.entity, project: record.project }
      return {
        ...tenant,
        keyId: record.keyId,
        keyPrefix: record.keyPrefix,
        sessionId: record.sessionId,
        scope: record.scope,
        usageProject: usageProject === undefined ? null : readUsageProject(tenant, usageProject),
      }
    },
  }
}

/** The token of `Bearer <token>`; the scheme's case does not matter. Null if malformed. */
export function parseBearer(authorization: string): string | null {
  return /^bearer +([\x21-\x7e]{1,512})$/i.exec(authorization.trim())?.[1] ?? null
}

/**
 * The entity that a usage header names and the key does not belong to; null if it names none.
 *
 * Copied from another service's documentation the header holds a team of there: it attributes usage and opens nothing, so the
 * project counts under the key's own entity.
 */
export function foreignEntity(tenant: Pick<Principal, 'entity'>, header: string): string | null {
  const { entity } = splitUsageProject(header)
  return entity === null || entity === tenant.entity ? null : entity
}

/** Null for an empty header. */
function readUsageProject(tenant: Pick<Principal, 'entity' | 'project'>, header: string): string | null {
  if (header.trim() === '') return null
  return checkProject(tenant, splitUsageProject(header).project) ?? null
}

function splitUsageProject(header: string): { readonly entity: string | null; readonly project: string } {
  const parts = header.trim().split('/')
  const project = parts.at(-1) ?? ''
  if (header.trim() !== '' && (parts.length > 2 || project === '' || project.length > 256)) {
    throw new InvalidRequestError(
      'invalid_project',
      `header Compat-Project must be project or entity/project, got "${header.slice(0, 100)}"`,
    )
  }
  return { entity: parts.length === 2 ? (parts[0] ?? '') : null, project }
}
