/**
 * The address of a blob store in a bucket:
 * `s3://bucket/prefix?endpoint=https://host&style=path&region=name&cache=10GB&direct=true`. It holds no secret: keys come from
 * the environment or from a file (`s3-credentials.ts`), so the address may stand in logs and process lists.
 */
import type { Environment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'

export interface S3Address {
  readonly bucket: string
  /** Keys begin with it: empty, or ends with a slash. */
  readonly prefix: string
  /** Scheme, host and port. */
  readonly endpoint: URL
  /** `path`: the bucket is the first part of the path; `host`: the first part of the host name. */
  readonly style: 'path' | 'host'
  readonly region: string
  /** Most bytes of copies on this machine's disk. */
  readonly cacheBytes: number
  /** Workers and engine nodes reach the endpoint too: they read large blobs there. */
  readonly isDirect: boolean
  /** What people are told, and what the database remembers: bucket and prefix, with an endpoint that is not AWS's. */
  readonly name: string
}

const DEFAULT_CACHE_BYTES = 10 * 1024 ** 3
const LEAST_CACHE_BYTES = 64 * 1024 ** 2
const UNITS: Readonly<Record<string, number>> = { MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }
const PARAMETERS = ['endpoint', 'style', 'region', 'cache', 'direct']
const FORM = 's3://bucket/prefix?endpoint=https://host&style=path'

/**
 * Reads the address, and where it does not say so the endpoint and the region from `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`,
 * `AWS_REGION`, `AWS_DEFAULT_REGION`.
 *
 * @throws {InvalidRequestError} `invalid_setting`
 */
export function parseS3Address(text: string, environment: Environment): S3Address {
  const url = /^s3:\/\//.test(text) && URL.canParse(text) ? new URL(text) : null
  // the text is not repeated where it may hold a key
  if (url === null) throw invalid(`must be an address like ${FORM}`)
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    throw invalid(
      'must not hold keys',
      'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE',
    )
  }
  const bucket = url.host
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    throw invalid(`names bucket "${bucket.slice(0, 100)}", which is no bucket name: 3 to 63 of a-z, 0-9, "." and "-"`)
  }
  for (const name of new Set(url.searchParams.keys())) {
    if (!PARAMETERS.includes(name)) throw invalid(`takes ${PARAMETERS.join(', ')}, got "${name.slice(0, 40)}"`)
    if (url.searchParams.getAll(name).length > 1) throw invalid(`names ${name} twice`)
  }
  const prefix = url.pathname.replace(/^\/+|\/+$/g, '')
  if (!/^[\w!.*'()/-]*$/.test(prefix) || prefix.includes('//') || /(^|\/)\.{1,2}(\/|$)/.test(prefix)) {
    throw invalid(
      `has prefix "${prefix.slice(0, 100)}", expected letters, digits and ! - _ . * ' ( ) between single slashes`,
    )
  }
  const given = (name: string): string | undefined => url.searchParams.get(name) ?? undefined
  const region = given('region') ?? environment['AWS_REGION'] ?? environment['AWS_DEFAULT_REGION'] ?? 'us-east-1'
  if (!/^[a-z0-9-]{1,40}$/.test(region))
    throw invalid(`has region "${region.slice(0, 60)}", expected one like us-east-1`)
  const named = given('endpoint') ?? environment['AWS_ENDPOINT_URL_S3'] ?? environment['AWS_ENDPOINT_URL'] ?? ''
  const endpoint = named === '' ? new URL(`https://s3.${region}.amazonaws.com`) : endpointOf(named)
  const style = given('style') ?? (named === '' && !bucket.includes('.') ? 'host' : 'path')
  if (style !== 'path' && style !== 'host') throw invalid(`takes style path or host, got "${style.slice(0, 40)}"`)
  const direct = given('direct') ?? 'false'
  if (direct !== 'true' && direct !== 'false') throw invalid(`takes direct true or false, got "${direct.slice(0, 40)}"`)
  const path = `s3://${bucket}/${prefix}`.replace(/\/$/, '')
  return {
    bucket,
    prefix: prefix === '' ? '' : `${prefix}/`,
    endpoint,
    style,
    region,
    cacheBytes: given('cache') === undefined ? DEFAULT_CACHE_BYTES : sizeOf(given('cache') ?? ''),
    isDirect: direct === 'true',
    name: named === '' ? path : `${path}?endpoint=${endpoint.origin}`,
  }
}

function endpointOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  const isHost = url !== null && url.pathname === '/' && url.search === '' && url.username === '' && url.password === ''
  if (url === null || !/^https?:$/.test(url.protocol) || !isHost) {
    throw invalid('needs an endpoint like https://host:port, without a path and without keys')
  }
  return url
}

function sizeOf(text: string): number {
  const [, number, unit = ''] = /^(\d{1,6})(MB|GB|TB)$/.exec(text) ?? []
  const bytes = number === undefined ? Number.NaN : Number(number) * (UNITS[unit] ?? Number.NaN)
  if (bytes >= LEAST_CACHE_BYTES) return bytes
  throw invalid(`takes a cache of at least 64MB, for example cache=20GB, got "${text.slice(0, 40)}"`)
}

function invalid(problem: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError('invalid_setting', `blob-store ${problem}`, {
    param: 'blob-store',
    hint: hint ?? `for example --blob-store '${FORM}'`,
  })
}
