/**
 * The address of an environment: `<scheme>:<what>`, or the path of a module of one's own.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { closest } from '#base/util/suggest.js'
import type { SourceKind } from './source.js'

interface EnvironmentAddress {
  readonly kind: SourceKind
  readonly target: string
}

/** @throws {InvalidRequestError} `unknown_environment` for another scheme or nothing behind it */
export function parseAddress(text: string, kinds: readonly SourceKind[]): EnvironmentAddress {
  const own = kinds.find((kind) => kind.isAddress?.(text) === true)
  if (own !== undefined) return { kind: own, target: text }
  const at = text.indexOf(':')
  const scheme = at < 0 ? text : text.slice(0, at)
  const target = at < 0 ? '' : text.slice(at + 1)
  const kind = kinds.find((each) => each.scheme === scheme)
  if (kind === undefined) {
    const schemes = kinds.map((each) => each.scheme)
    const near = closest(scheme, schemes)
    const meant = near === undefined ? '' : `did you mean ${near}:…? `
    throw new InvalidRequestError('unknown_environment', `"${text}" is no address of an environment`, {
      hint: `${meant}an address is one of ${kinds.map((each) => each.example).join(', ')}; trainyard env list says what each is`,
    })
  }
  if (target.trim() === '') {
    throw new InvalidRequestError('unknown_environment', `"${text}" names no environment: ${scheme}:${kind.target}`, {
      hint: `for example ${kind.example}`,
    })
  }
  return { kind, target }
}
