/**
 * Where routes may lead, which keys go there, and which patterns mask.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { type AddressRules, createAddressRules, type NameService } from '#service/operations/address-rules.js'

/** @param allowedHosts see `createAddressRules` */
export function createUpstreamRules(allowedHosts: readonly string[], lookUp: NameService): AddressRules {
  const refusal = { code: 'upstream_refused', param: 'upstream', subject: 'upstream', flag: '--gateway-host' }
  return createAddressRules(allowedHosts, refusal, lookUp)
}

/** Variables that hold keys, and where each may be sent. @throws {InvalidRequestError} for a line that says neither */
export function readKeyRules(lines: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    lines.map((line) => {
      const [, variable, address] = /^([A-Za-z_]\w*)=(.+)$/.exec(line.trim()) ?? []
      if (variable === undefined || address === undefined || !URL.canParse(address)) {
        throw new InvalidRequestError('invalid_value', `--gateway-key must be VARIABLE=https://host, got "${line}"`, {
          param: 'gateway-keys',
          hint: 'for example OPENAI_API_KEY=https://api.openai.com',
        })
      }
      return [variable, new URL(address).origin]
    }),
  )
}

/** The address as it is kept. @throws {InvalidRequestError} the refusal */
export function readUpstream(rules: AddressRules, text: string): string {
  const url = rules.check(text)
  if (url.search !== '' || url.hash !== '') {
    throw new InvalidRequestError('invalid_value', `upstream must have no query and no fragment, got "${text}"`, {
      param: 'upstream',
      hint: 'a query comes from each call',
    })
  }
  const path = url.pathname.replace(/\/+$/, '')
  return `${url.origin}${path === '' ? '/v1' : path}`
}

/** @throws {InvalidRequestError} for a pattern that is none, or fits everywhere */
export function checkPatterns(patterns: readonly string[], compile: (pattern: string) => RegExp): void {
  for (const [i, pattern] of patterns.entries()) {
    const fault = faultOf(pattern, compile)
    if (fault === null) continue
    throw new InvalidRequestError('invalid_value', `mask_patterns[${i}] ${fault}`, {
      param: `mask_patterns[${i}]`,
      hint: 'a regular expression of JavaScript with the flag u, for example EMP-\\d{6}',
    })
  }
}

function faultOf(pattern: string, compile: (pattern: string) => RegExp): string | null {
  try {
    return compile(pattern).test('') ? 'fits an empty text, so it would fit everywhere' : null
  } catch (error) {
    return `is no regular expression: ${error instanceof Error ? error.message : String(error)}`
  }
}
