/**
 * Where a Ray cluster is and what is kept there: `ray://head:8265?max=8&gpus=1&server=…&key-file=…`, as `--workers` takes it.
 *
 * Nothing in it is secret: the key that workers ask with lies in a file of each node, and Ray's token comes from the environment.
 */
import { AppError } from '#base/errors/errors.js'

export interface RayPlacement {
  /** Of the dashboard's port, without a slash at the end. */
  readonly url: string
  /** Under which nodes find this server. */
  readonly serverUrl: string
  /** File of the worker's key, on each node. */
  readonly keyFile: string
  /** Workers that are kept alive, whatever there is to do, and at most. */
  readonly least: number
  readonly most: number
  /** What Ray sets aside for each. */
  readonly cpus: number
  readonly gpus: number
  readonly resources: Readonly<Record<string, number>>
  /** How the worker is called on nodes. */
  readonly command: string
  readonly trainer: string
  /** After so long without a job a worker ends by itself, seconds. */
  readonly idleSeconds: number
  /** A cluster without a token, or whose token travels over plain http to another machine, is accepted. */
  readonly isInsecure: boolean
}

const EXAMPLE = 'ray://head:8265?server=https://this-server&key-file=/etc/trainyard/worker.key&max=8&gpus=1'
const RESOURCE = 'resource.'
const KNOWN = ['server', 'key-file', 'min', 'max', 'cpus', 'gpus', 'command', 'trainer', 'idle', 'tls', 'insecure']

/**
 * Reads the address.
 *
 * @param publicUrl of this server, for an address that does not say
 * @throws {AppError} `invalid_workers` naming the part that is wrong
 */
export function parseRayAddress(text: string, publicUrl: string | null): RayPlacement {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || url.protocol !== 'ray:' || url.hostname === '') {
    throw wrong(`must be an address of Ray's dashboard, got "${text.slice(0, 200)}"`)
  }
  if (url.username !== '' || url.password !== '') throw wrong('must hold no password: the token is RAY_AUTH_TOKEN')
  const given = url.searchParams
  for (const name of given.keys()) {
    if (KNOWN.includes(name) || (name.startsWith(RESOURCE) && name.length > RESOURCE.length)) continue
    throw wrong(`has no parameter "${name}"; there are ${KNOWN.join(', ')} and ${RESOURCE}<name>`)
  }
  const number = (name: string, fallback: number, isWhole: boolean): number => {
    const said = given.get(name)
    const value = said === null ? fallback : Number(said)
    if (said?.trim() !== '' && Number.isFinite(value) && value >= 0 && (!isWhole || Number.isInteger(value)))
      return value
    throw wrong(`parameter ${name} must be ${isWhole ? 'a whole number' : 'a number'} of 0 or more, got "${said}"`)
  }
  const serverUrl = given.get('server') ?? publicUrl
  if (serverUrl === null || !/^https?:\/\//.test(serverUrl) || !URL.canParse(serverUrl)) {
    throw wrong('needs server=, the http or https address under which nodes find this server')
  }
  const keyFile = given.get('key-file')
  if (keyFile === null || !keyFile.startsWith('/')) {
    throw wrong("needs key-file=, the absolute path on each node of a file with a worker's key")
  }
  const [least, most] = [number('min', 0, true), number('max', 1, true)]
  if (least > most) throw wrong(`parameter min must be at most max, got ${least} and ${most}`)
  const resources = [...given.keys()].filter((name) => name.startsWith(RESOURCE))
  return {
    url: `${isSet(given, 'tls') ? 'https' : 'http'}://${url.host}`,
    serverUrl: serverUrl.replace(/\/+$/, ''),
    keyFile,
    least,
    most,
    cpus: number('cpus', 1, false),
    gpus: number('gpus', 0, false),
    resources: Object.fromEntries(resources.map((name) => [name.slice(RESOURCE.length), number(name, 0, false)])),
    command: given.get('command') ?? 'trainyard',
    trainer: given.get('trainer') ?? (number('gpus', 0, false) > 0 ? 'auto' : 'onnx'),
    idleSeconds: number('idle', 300, true),
    isInsecure: isSet(given, 'insecure'),
  }
}

function isSet(given: URLSearchParams, name: string): boolean {
  const said = given.get(name) ?? 'false'
  if (said === 'true' || said === 'false') return said === 'true'
  throw wrong(`parameter ${name} must be true or false, got "${said}"`)
}

function wrong(what: string): AppError {
  return new AppError('invalid_request', 'invalid_workers', `--workers ${what}`, { hint: `for example ${EXAMPLE}` })
}
