/**
 * Text of a flag, a variable or the config file → value. Each parser throws `ExpectedError` with what it wanted, as a fragment
 * of a sentence; whoever knows where the text came from adds that.
 */
import { DEFAULT_SERVER_URL } from '#contract/settings/service.js'
import { type Bounds, MAX_DURATION_MS } from '#contract/settings/setting.js'
import { MAX_KEY_LIFE_SECONDS } from '#contract/wire/access/key-words.js'

/** Thrown by a `parse` export function with what it wanted. */
export class ExpectedError extends Error {}

/**
 * `500ms`, `30s`, `5m`, `2h`, `7d` → milliseconds.
 *
 * @throws {ExpectedError} when the text is anything else, or zero
 */
export function parseDurationMs(text: string): number {
  const value = readDurationMs(text)
  if (!(value > 0)) throw new ExpectedError('a duration such as 500ms, 30s, 5m or 2h (at most 24 days)')
  return value
}

/** Longest life of an API key. */
const MAX_LIFETIME_MS = MAX_KEY_LIFE_SECONDS * 1000

/**
 * As `parseDurationMs`, and days (`30d`): no timer has to wait so long.
 *
 * @throws {ExpectedError} when the text is anything else, zero, or more than ten years
 */
export function parseLifetimeMs(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(s|m|h|d)$/.exec(text.trim())
  const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[match?.[2] as 's' | 'm' | 'h' | 'd']
  const value = Number(match?.[1]) * unitMs
  if (!(value > 0 && value <= MAX_LIFETIME_MS)) {
    throw new ExpectedError('a duration such as 30m, 12h, 720h or 90d (at most 3650d)')
  }
  return value
}

/** NaN for anything that is no duration up to `MAX_DURATION_MS`. */
function readDurationMs(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim())
  const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[match?.[2] as 'ms' | 's' | 'm' | 'h' | 'd']
  const value = Number(match?.[1]) * unitMs
  return value <= MAX_DURATION_MS ? value : Number.NaN
}

export function parseDurationBetween(text: string, leastMs: number, mostMs: number): number {
  const value = readDurationMs(text)
  if (!(value >= leastMs && value <= mostMs)) {
    throw new ExpectedError(`a duration such as 30s, 5m or 2h, from ${leastMs / 1000}s to ${mostMs / 60_000}m`)
  }
  return value
}

export function parseText(text: string): string {
  if (text.trim() === '') throw new ExpectedError('text that is not empty')
  return text.trim()
}

export function parseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new ExpectedError(`a URL such as ${DEFAULT_SERVER_URL}`)
  }
  // Clients of the API are given `…/v1`; both spellings mean the same server.
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '').replace(/\/v1$/, '')
}

export function parseBoolean(text: string): boolean {
  const word = text.trim().toLowerCase()
  if (['1', 'true', 'yes', 'on'].includes(word)) return true
  if (['0', 'false', 'no', 'off', ''].includes(word)) return false
  throw new ExpectedError('1 or 0 (true, false, yes, no)')
}

export function parseWhole(text: string, { min, max }: Bounds): number {
  const value = /^-?\d+$/.test(text.trim()) ? Number(text) : Number.NaN
  if (!(value >= min && value <= max)) throw new ExpectedError(`a whole number from ${min} to ${max}`)
  return value
}

export function parseChoice<T extends string>(text: string, choices: readonly T[]): T {
  const choice = choices.find((each) => each === text.trim())
  if (choice === undefined) throw new ExpectedError(`one of ${choices.join(', ')}`)
  return choice
}

/** Separated by commas, or by line breaks when there are any (a path may hold a comma). */
export function parseList(text: string): readonly string[] {
  return text
    .split(text.includes('\n') ? '\n' : ',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}

/** Powers of 1024, as memory and disks are counted in settings. */
const SIZE_UNITS = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }

/** `500KB`, `64MB`, `1GB` or plain bytes → bytes. @throws {ExpectedError} outside the bounds too */
export function parseSize(text: string, { min, max }: Bounds): number {
  const match = /^(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?$/i.exec(text.trim())
  const unit = `${match?.[2]?.toUpperCase() ?? ''}B` as keyof typeof SIZE_UNITS
  const value = Math.trunc(Number(match?.[1]) * SIZE_UNITS[unit])
  if (!(value >= min && value <= max)) {
    throw new ExpectedError(`a size such as 500KB, 64MB or 1GB, from ${formatSize(min)} to ${formatSize(max)}`)
  }
  return value
}

/** @example formatSize(16_777_216) // '16MB' */
export function formatSize(bytes: number): string {
  const unit = Object.entries(SIZE_UNITS).findLast(([, size]) => bytes % size === 0) ?? ['B', 1]
  return `${bytes / unit[1]}${unit[0]}`
}

/** In the longest unit that divides it. @example formatDuration(86_400_000) // '24h' */
export function formatDuration(ms: number): string {
  const units = Object.entries({ ms: 1, s: 1000, m: 60_000, h: 3_600_000 })
  const unit = units.findLast(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / unit[1]}${unit[0]}`
}
