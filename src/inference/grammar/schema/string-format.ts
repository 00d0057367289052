/**
 * Formats of strings as regular expressions that are written in full, for `string-pattern.ts`.
 *
 * Each takes only what its RFC and the checkers in use (ajv-formats, the optional part of the public JSON Schema test suite) both take,
 * sometimes less: no leap seconds, no quoted local parts in mail addresses, host names of limited length.
 */

const DAYS_OF_MONTH = [
  '(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])',
  '(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)',
  '02-(?:0[1-9]|1\\d|2[0-8])',
].join('|')
const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)'
/** RFC 3339, section 5.6. */
const DATE = `(?:\\d{4}-(?:${DAYS_OF_MONTH})|${LEAP_YEAR}-02-29)`
const HOUR_MINUTE = '(?:[01]\\d|2[0-3]):[0-5]\\d'
const TIME = `${HOUR_MINUTE}:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+\\-]${HOUR_MINUTE})`

/** RFC 3339, appendix A. */
function duration(): string {
  const time = 'T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)'
  const month = '\\d+M(?:\\d+D)?'
  return `P(?:(?:\\d+D|${month}|\\d+Y(?:${month})?)(?:${time})?|${time}|\\d+W)`
}

const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?'
const SHORT_LABEL = '[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,22}[A-Za-z0-9])?'
/** RFC 1123: 253 characters at most, so either three labels of any length or ten short ones. */
const HOSTNAME = `(?:${LABEL}(?:\\.${LABEL}){0,2}|${SHORT_LABEL}(?:\\.${SHORT_LABEL}){3,9})`
const DOMAIN = `(?:${LABEL}(?:\\.${LABEL}){1,2}|${SHORT_LABEL}(?:\\.${SHORT_LABEL}){3,9})`
const ATOM = "[A-Za-z0-9!#$%&'*+/=?\\^_`{|}~\\-]"
/** RFC 5321: the local part has 64 characters at most. */
const EMAIL = `(?:${ATOM}{1,64}|${ATOM}{1,20}(?:\\.${ATOM}{1,20}){1,2})@${DOMAIN}`

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`
const HEX = '[0-9A-Fa-f]'

/** RFC 3986, section 3.2.2. */
function ipv6(): string {
  const group = `${HEX}{1,4}`
  const tail = `(?:${group}:${group}|${IPV4})`
  const before = (count: number): string => `(?:(?:${group}:){0,${count}}${group})?`
  const after = [5, 4, 3, 2].map((count, i) =>
    i === 0 ? `::(?:${group}:){${count}}${tail}` : `${before(i - 1)}::(?:${group}:){${count}}${tail}`,
  )
  const short = [`${before(3)}::${group}:${tail}`, `${before(4)}::${tail}`, `${before(5)}::${group}`, `${before(6)}::`]
  return `(?:${[`(?:${group}:){6}${tail}`, ...after, ...short].join('|')})`
}

const ESCAPED = `%${HEX}{2}`
const PLAIN = "A-Za-z0-9\\-._~!$&'()*+,;="
const PATH_CHARACTER = `(?:[${PLAIN}:@]|${ESCAPED})`
const AUTHORITY = `(?:(?:[${PLAIN}:]|${ESCAPED})*@)?(?:\\[${ipv6()}\\]|(?:[${PLAIN}]|${ESCAPED})*)(?::\\d*)?`
const SEGMENTS = `(?:/${PATH_CHARACTER}*)*`
const QUERY_AND_FRAGMENT = ['\\?', '#'].map((start) => `(?:${start}(?:[${PLAIN}:@/?]|${ESCAPED})*)?`).join('')
const ROOTED = `//${AUTHORITY}${SEGMENTS}|/(?:${PATH_CHARACTER}+${SEGMENTS})?`
/** RFC 3986, section 3; something must follow the scheme. */
const URI = `[A-Za-z][A-Za-z0-9+.\\-]*:(?:${ROOTED}|${PATH_CHARACTER}+${SEGMENTS})${QUERY_AND_FRAGMENT}`
const RELATIVE = `(?:${ROOTED}|(?:[${PLAIN}@]|${ESCAPED})+${SEGMENTS})?${QUERY_AND_FRAGMENT}`

/** RFC 6570. */
function uriTemplate(): string {
  const name = `(?:[A-Za-z0-9_]|${ESCAPED})+`
  const variable = `${name}(?::[1-9]\\d{0,3}|\\*)?`
  const literal = '[^\\x00-\\x20"\'<>%\\\\\\^`{|}\\x7f-\\u{10ffff}]'
  return `(?:${literal}|${ESCAPED}|\\{[+#./;?&]?${variable}(?:,${variable})*\\})*`
}

/** RFC 6901. */
const JSON_POINTER = '(?:/(?:[^~/]|~[01])*)*'

const PATTERNS: ReadonlyMap<string, string> = new Map([
  ['date', DATE],
  ['time', TIME],
  ['date-time', `${DATE}T${TIME}`],
  ['duration', duration()],
  ['email', EMAIL],
  ['hostname', HOSTNAME],
  ['ipv4', IPV4],
  ['ipv6', ipv6()],
  ['uuid', `${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12}`],
  ['uri', URI],
  ['uri-reference', `(?:${URI}|${RELATIVE})`],
  ['uri-template', uriTemplate()],
  ['json-pointer', JSON_POINTER],
  ['relative-json-pointer', `(?:0|[1-9]\\d{0,14})(?:#|${JSON_POINTER})`],
  ['byte', '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?'],
])

/** Where the pattern above leaves out what a format allows, for its length alone. */
const WIDER: ReadonlyMap<string, string> = new Map([
  ['email', `${ATOM}+(?:\\.${ATOM}+)*@[A-Za-z0-9\\-]+(?:\\.[A-Za-z0-9\\-]+)*`],
  ['time', TIME.replace('{1,9}', '+')],
  ['date-time', `${DATE}T${TIME.replace('{1,9}', '+')}`],
])

/** What texts of a format look like at most; undefined where that is any text, or the format is not one of strings. */
export function formatDefinition(format: string): string | undefined {
  return WIDER.get(format) ?? PATTERNS.get(format)
}

/** Formats of OpenAPI that any string has. */
const ANY_STRING = new Set(['password', 'binary'])

/** The largest whole number that is written where bounds hold it. */
const MOST_WRITTEN = 10 ** 15 - 1
const UNSIGNED = [0, MOST_WRITTEN] as const

/** Formats of OpenAPI and of Rust's schemars for numbers, with the bounds they mean. */
const NUMBERS: ReadonlyMap<string, readonly [minimum: number, maximum: number] | null> = new Map([
  ['int8', [-128, 127] as const],
  ['int16', [-(2 ** 15), 2 ** 15 - 1] as const],
  ['int32', [-(2 ** 31), 2 ** 31 - 1] as const],
  // every number written here is one of these
  ['int64', null],
  ['int128', null],
  ['int', null],
  ['uint8', [0, 255] as const],
  ['uint16', [0, 2 ** 16 - 1] as const],
  ['uint32', [0, 2 ** 32 - 1] as const],
  ['uint64', UNSIGNED],
  ['uint128', UNSIGNED],
  ['uint', UNSIGNED],
  ['float', null],
  ['double', null],
])

/** What a format says of a value: nothing, a pattern for the whole text, bounds of a number; undefined if it is not known. */
export function readFormat(
  format: string,
  types: readonly string[],
): { readonly pattern?: string; readonly bounds?: readonly [number, number] } | undefined {
  if (types.includes('string')) {
    const pattern = PATTERNS.get(format)
    if (pattern !== undefined) return { pattern }
    return ANY_STRING.has(format) ? {} : undefined
  }
  const bounds = NUMBERS.get(format)
  if (bounds === undefined || !types.some((type) => type === 'integer' || type === 'number')) return undefined
  return bounds === null ? {} : { bounds }
}
