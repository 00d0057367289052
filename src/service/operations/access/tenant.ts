/**
 * Whose things a request may see: everything of the key's entity, or one project of it.
 *
 * What belongs to others is not found, so that ids leak nothing; naming another entity or project outright is forbidden.
 */

import { AppError } from '#base/errors/errors.js'
import { type KeyScope, scopeContains } from '#contract/wire/access/key-words.js'
import type { Principal, Tenant } from './principal.js'

/** Whether a thing of an entity and project is the tenant's. */
export function isOwn(tenant: Tenant, thing: { readonly entity: string; readonly project: string | null }): boolean {
  return thing.entity === tenant.entity && (tenant.project === null || thing.project === tenant.project)
}

/** Entity of the keys that are made where the data lies, unless another is named. */
export const OPERATOR_ENTITY = 'local'

/** Whether it is who runs the server: a key of that entity for all of its projects. */
export function isOperator({ entity, project }: Tenant): boolean {
  return entity === OPERATOR_ENTITY && project === null
}

/** The tenant alone, without what else a principal is. */
export function ownerOf({ entity, project }: Tenant): Tenant {
  return { entity, project }
}

/**
 * The project a request is about: the one it names, else the key's own.
 *
 * @returns undefined for all of the entity
 * @throws {AppError} `forbidden` if the key is bound to another project
 */
export function checkProject(tenant: Tenant, project: string | undefined): string | undefined {
  if (tenant.project === null || project === tenant.project) return project
  if (project === undefined) return tenant.project
  throw new AppError('permission', 'forbidden', `project "${project.slice(0, 100)}" is not open to this API key`, {
    hint: `this key belongs to project "${tenant.project}"`,
    param: 'project',
  })
}

/**
 * The entity a request is about: an empty name is the key's own.
 *
 * @throws {AppError} `forbidden` for another than the key's
 */
export function checkEntity(tenant: Tenant, entity: string): string {
  if (entity === '' || entity === tenant.entity) return tenant.entity
  throw new AppError('permission', 'forbidden', `entity "${entity.slice(0, 100)}" does not belong to this API key`, {
    hint: `leave entity out, or use "${tenant.entity}"`,
    param: 'entity',
  })
}

/** @throws {AppError} `insufficient_scope` if the key may not do what needs `scope` */
export function requireScope(principal: Principal, scope: KeyScope): void {
  if (scopeContains(principal.scope, scope)) return
  throw new AppError(
    'permission',
    'insufficient_scope',
    `this API key has scope "${principal.scope}", this request needs "${scope}"`,
    { hint: 'use another key; `trainyard keys create` makes one', details: { scope: principal.scope, needed: scope } },
  )
}
