/**
 * Masks what nobody means to keep: keys and tokens of common forms, e-mail addresses, what stands behind words such as
 * `password`, and what the patterns of a route fit. What is found is replaced by `[masked:kind]`.
 *
 * Forms are those that services document for their own keys, so that leaked ones are found; a secret that looks like a word is
 * found only by its name or by a pattern. No expression of ours has two ways to read one text, so each takes time in proportion
 * to it.
 */

type Form = readonly [kind: string, form: RegExp]

/** In this order: what is longer and more certain comes first. */
const FORMS: readonly Form[] = [
  [
    'private_key',
    /-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]{0,20000}?-----END [A-Z ]{0,40}-----|[\s\S]{0,4000})/g,
  ],
  ['token', /\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?/g],
  ['url_password', /(?<=[a-z][a-z0-9+.-]{0,30}:\/\/[^\s:/@"'<>]{0,256}:)[^\s/@"'<>]{1,256}(?=@)/gi],
  ['token', /(?<=\b(?:bearer|basic|token)[ \t]{1,4})[\w.~+/=-]{12,}/gi],
  ['api_key', /\b(?:sk|pk|rk)[-_](?:[\w-]{16,})/g],
  ['api_key', /\bty[a-z_]{0,20}_\w{16,}/g],
  ['api_key', /\b(?:gh[pousr]_|github_pat_)\w{20,}/g],
  ['api_key', /\b(?:glpat|gldt|glrt|glptt|glsoat)-[\w-]{16,}/g],
  ['api_key', /\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ABIA|ACCA)[A-Z0-9]{16}\b/g],
  ['api_key', /\bAIza[\w-]{30,}/g],
  ['token', /\bya29\.[\w.-]{16,}/g],
  ['api_key', /\bGOCSPX-[\w-]{16,}/g],
  ['token', /\bxox[abeoprs]-[\w-]{10,}/g],
  ['token', /\bxapp-[\w-]{10,}/g],
  ['address', /\bhttps:\/\/hooks\.slack\.com\/(?:services|workflows)\/[\w/-]{8,}/g],
  ['address', /\bhttps:\/\/discord(?:app)?\.com\/api\/webhooks\/[\w/-]{8,}/g],
  ['api_key', /\bwhsec_[\w+/=]{16,}/g],
  [
    'api_key',
    /\b(?:hf|npm|gsk|r8|nvapi|rnd|pat|ntn|secret|dop|doo|dor|fly|fo1|sbp|re|rpa|dckr_pat|lin_api|tvly|figd|phc|phx)[-_][\w-]{20,}/g,
  ],
  [
    'api_key',
    /\b(?:xai|pypi|dapi|key|shp(?:at|ca|pa|ss)|sq0(?:atp|csp|idp)|EAAA|PMAK|pplx|csk|glc|glsa|NRAK|ATATT3|ATBB)[-_]?[\w-]{24,}/g,
  ],
  ['api_key', /\bSG\.[\w-]{16,}\.[\w-]{16,}/g],
  ['api_key', /\b(?:SK|AC)[0-9a-f]{32}\b/g],
  ['token', /\b(?:hvs|hvb|hvr|dp\.(?:pt|st|ct|sa))\.[\w-]{16,}/g],
  ['token', /\b\d{6,12}:AA[\w-]{30,}/g],
  ['token', /\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}/g],
  ['email', /\b[\w.%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}/gi],
]

const SECRET_NAMES =
  'api[-_ ]?key|api[-_ ]?token|access[-_ ]?key|secret[-_ ]?access[-_ ]?key|account[-_ ]?key|shared[-_ ]?access[-_ ]?key|' +
  'access[-_ ]?token|auth[-_ ]?token|refresh[-_ ]?token|session[-_ ]?token|id[-_ ]?token|bot[-_ ]?token|client[-_ ]?secret|secret[-_ ]?key|' +
  'private[-_ ]?key|signing[-_ ]?key|encryption[-_ ]?key|password|passwd|passphrase|pwd|secret|credentials?|authorization|x-api-key'
/** A value behind such a name, however its quotes are escaped: `password: "x"`, `API_KEY=x`. */
const ASSIGNED = new RegExp(
  `((?:${SECRET_NAMES})\\\\*["']?[ \\t]{0,8}(?:=>|:=|[:=])[ \\t]{0,8}\\\\*["'\`]?)(?!\\[masked:)([^\\s"'\`\\\\,;}&<>]{4,})`,
  'gi',
)
const SECRET_NAME = new RegExp(`^(?:[\\w.]{0,40}[-_.])?(?:${SECRET_NAMES})$`, 'i')
/** A file as an address of data: no secret can be found in it, and a match would break it. */
const DATA = /^data:[\w/+.-]{1,100};base64,[A-Za-z0-9+/=\s]*$/

/** @param own patterns of the route */
export function maskText(text: string, own: readonly RegExp[]): string {
  if (DATA.test(text)) return text
  let masked = text
  for (const [kind, form] of FORMS) masked = masked.replace(form, `[masked:${kind}]`)
  masked = masked.replace(ASSIGNED, '$1[masked:secret]')
  for (const pattern of own) masked = masked.replace(pattern, '[masked:pattern]')
  return masked
}

/** Every text of a JSON value, names of fields too. */
export function maskJson(value: unknown, own: readonly RegExp[]): unknown {
  if (typeof value === 'string') return maskText(value, own)
  if (Array.isArray(value)) return value.map((item) => maskJson(item, own))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, held]) => [
      maskText(name, own),
      typeof held === 'string' && held !== '' && SECRET_NAME.test(name) ? '[masked:secret]' : maskJson(held, own),
    ]),
  )
}

/** A pattern as it is used. @throws {SyntaxError} for what is none */
export function compilePattern(pattern: string): RegExp {
  return new RegExp(pattern, 'gu')
}
