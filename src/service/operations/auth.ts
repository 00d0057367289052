/**
 * Who a bearer key belongs to.
 */

import { AppError } from '#base/errors.js'
import { findApiKey } from '#service/storage/api-keys.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import type { Principal } from './context.js'

export interface AuthService {
  /** @throws {AppError} `missing_api_key` or `invalid_api_key` */
  authenticate(authorization: string | undefined): Promise<Principal>
}

export function createAuthService(db: DatabaseHandle): AuthService {
  return {
    authenticate: async (authorization) => {
      if (authorization === undefined || authorization.trim() === '') {
        throw new AppError('authentication', 'missing_api_key', 'Not authenticated', {
          hint: 'send Authorization: Bearer <API key>',
        })
      }
      const key = parseBearer(authorization)
      const record = key === null ? null : await findApiKey(db, key)
      if (record === null) {
        throw new AppError('authentication', 'invalid_api_key', 'Invalid authentication credentials')
      }
      return { entity: record.entity, keyId: record.id, keyPrefix: record.keyPrefix }
    },
  }
}

/** The token of `Bearer <token>`; the scheme's case does not matter. Null if malformed. */
export function parseBearer(authorization: string): string | null {
  return /^bearer +([\x21-\x7e]{1,512})$/i.exec(authorization.trim())?.[1] ?? null
}
