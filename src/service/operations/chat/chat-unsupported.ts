/**
 * Published chat fields this version cannot honour: refused when they ask for something, accepted at their neutral value.
 * Never ignored silently. One row per field; a row goes away when the field works.
 */

import type { ChatRequest } from '#api/wire/chat-completions.js'
import { InvalidRequestError } from '#base/errors.js'

/** Field → whether the request asks for something that is not there yet. */
const UNSUPPORTED: Readonly<Record<string, (request: ChatRequest) => boolean>> = {
  use_beam_search: (r) => r.use_beam_search === true,
}

/** @throws {InvalidRequestError} `not_supported` */
export function refuseUnsupported(request: ChatRequest): void {
  for (const [field, isAsked] of Object.entries(UNSUPPORTED)) {
    if (isAsked(request)) throw notSupported(field, `${field} is not supported yet.`)
  }
  const priority = request.priority ?? 0
  if (priority !== 0) {
    throw notSupported('priority', `Got priority ${priority} but Priority scheduling is not enabled.`)
  }
}

function notSupported(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('not_supported', message, { param })
}
