/**
 * Tools that run on a provider's own servers (`web_search`, `custom`, `bash_…`): refused by name, unless the client opts in to have
 * them left out, as coding agents need that always offer them.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { reportIgnored } from './body.js'
import type { RequestContext } from './environment.js'

export const DROP_TOOLS_HEADER = 'x-trainyard-drop-unsupported-tools'

interface Typed {
  readonly type?: string | null | undefined
}

/**
 * @param served the types of tools that are served; what is left out is named among the ignored fields
 * @throws {InvalidRequestError} for a header that is neither yes nor no
 */
export function withServedTools<T extends Typed, R extends { readonly tools?: T[] | null | undefined }>(
  c: RequestContext,
  request: R,
  served: readonly (string | null)[],
): R {
  const { tools = null } = request
  if (!isDropping(c) || tools === null) return request
  const isServed = ({ type = null }: Typed): boolean => served.includes(type)
  const names = tools.filter((tool) => !isServed(tool)).map(({ type }) => `tools[].${type}`)
  reportIgnored(c, [...new Set(names)])
  return { ...request, tools: tools.filter(isServed) }
}

function isDropping(c: RequestContext): boolean {
  const value = c.req.header(DROP_TOOLS_HEADER)?.trim().toLowerCase() ?? 'false'
  if (value === 'true' || value === '1') return true
  if (value === 'false' || value === '0') return false
  throw new InvalidRequestError(
    'invalid_value',
    `the header ${DROP_TOOLS_HEADER} must be true or false, got "${value.slice(0, 40)}"`,
    { hint: `send ${DROP_TOOLS_HEADER}: true to have tools left out that are not served here` },
  )
}
