/**
 * The method and path that an endpoint's key stands for. Of the rows it knows types alone: a client that loads no schemas uses it.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { Method } from './endpoint.js'
import type { EndpointKey } from './table.js'

export interface Address {
  readonly method: Method
  readonly path: string
}

/** @param values of the parameters, in the order of the path @throws {InvalidRequestError} `missing_id` for an empty one */
export function addressOf(key: EndpointKey, values: readonly (string | number)[]): Address {
  const [method, path] = key.split(' ') as [Method, string]
  let next = 0
  const filled = path.replaceAll(/\{(\+?)\w+\}/g, (_, rest: string) => {
    const value = String(values[next++] ?? '')
    // without its id, the path of one thing is that of the list it is in
    if (value === '')
      throw new InvalidRequestError('missing_id', 'an id or name is empty, expected text that names one thing')
    return rest === '' ? encodeURIComponent(value) : value.split('/').map(encodeURIComponent).join('/')
  })
  return { method, path: filled }
}
