/**
 * Asks the server's own API whether a grader can grade for somebody here, before anything is made for it: its models, its hosts,
 * its Python.
 */
import { AppError, type ErrorCategory, InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Principal } from '#service/operations/context.js'
import type { PluginStart } from '#service/plugin.js'

const VALIDATE = 'http://localhost/v1/fine_tuning/alpha/graders/validate'
const OURS = 'grader'
/** Refusals that stay what they are; all others are the request's. */
const KEPT: Readonly<Record<number, ErrorCategory>> = { 403: 'permission', 429: 'rate_limited', 503: 'unavailable' }

/** @param path how the grader is named in refusals @throws {AppError} with the path of what is wrong */
export type CheckGrader = (principal: Principal, grader: JsonObject, path: string) => Promise<void>

export function createGraderCheck(ask: PluginStart['ask']): CheckGrader {
  return async (principal, grader, path) => {
    const headers = { 'content-type': 'application/json' }
    const request = new Request(VALIDATE, { method: 'POST', headers, body: JSON.stringify({ grader }) })
    const response = await ask(principal, request)
    if (response.ok) return
    const { error } = (await response.json()) as {
      readonly error: {
        readonly code: string
        readonly message: string
        readonly param?: string
        readonly hint?: string
      }
    }
    const param = error.param?.startsWith(OURS) === true ? `${path}${error.param.slice(OURS.length)}` : path
    const options = { param, ...(error.hint === undefined ? {} : { hint: error.hint }) }
    const category = KEPT[response.status]
    if (category !== undefined) throw new AppError(category, error.code, error.message, options)
    throw new InvalidRequestError(error.code, error.message, options)
  }
}
