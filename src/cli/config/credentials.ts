/**
 * Finds the API key and remembers where it came from.
 *
 * Order: --api-key-file, TRAINYARD_API_KEY, TRAINYARD_API_KEY_FILE, the config file's api-key or api-key-file, then, only
 * for a loopback URL, the key file of the local server at that address, then that of the default data directory.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isLoopbackUrl } from '#base/util/loopback.js'
import type { Config, SettingSource } from './load.js'
import { API_KEY_FILE } from './paths.js'
import { readServerRecord } from './server-record.js'

export interface Credential {
  readonly key: string
  readonly source: SettingSource | 'local'
  /** Flag, variable or file path it was read from. */
  readonly origin: string
}

/**
 * Returns the credential, or null when there is none.
 *
 * @param readStdin used for `--api-key-file -`
 * @throws {InvalidRequestError} `invalid_api_key_file` when a named file cannot be read or is empty
 */
export async function findCredential(config: Config, readStdin: () => Promise<string>): Promise<Credential | null> {
  const key = config.resolve('api-key')
  const file = config.resolve('api-key-file')
  if (file.value !== null && isStronger(file.source, key.source)) {
    const text = file.value === '-' ? await readStdin() : await readKeyFile(file.value, file.origin)
    return { key: requireKey(text, file.value), source: file.source, origin: file.value }
  }
  if (key.value !== null) return { key: requireKey(key.value, key.origin), source: key.source, origin: key.origin }
  return await findLocalCredential(config)
}

/** `ty_4f8a…c91e`: enough to tell keys apart, not enough to use one. */
export function fingerprint(key: string): string {
  return key.length < 16 ? '…' : `${key.slice(0, 7)}…${key.slice(-4)}`
}

async function findLocalCredential(config: Config): Promise<Credential | null> {
  const url = config.get('server')
  if (!isLoopbackUrl(url)) return null
  const record = await readServerRecord(config.paths, url)
  const candidates = [record?.apiKeyFile, join(config.get('data-dir') ?? config.paths.dataDir, API_KEY_FILE)]
  for (const path of candidates) {
    if (path === undefined) continue
    const key = await readFile(path, 'utf8').then(
      (text) => text.trim(),
      () => '',
    )
    if (key !== '') return { key, source: 'local', origin: path }
  }
  return null
}

const strength: Readonly<Record<SettingSource, number>> = { flag: 3, env: 2, file: 1, default: 0 }

/** TRAINYARD_API_KEY beats TRAINYARD_API_KEY_FILE; otherwise the stronger source wins. */
function isStronger(file: SettingSource, key: SettingSource): boolean {
  return strength[file] > strength[key]
}

/** @param origin flag, variable or config file that names it @throws {InvalidRequestError} `invalid_api_key_file` */
export async function readKeyFile(path: string, origin: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const why = code === 'ENOENT' ? 'there is no such file' : `${code ?? cause}`
    throw new InvalidRequestError('invalid_api_key_file', `${path} (from ${origin}) cannot be read: ${why}`, { cause })
  }
}

/** The key that a text holds, spaces and line feeds around it. @throws {InvalidRequestError} `invalid_api_key_file` */
export function requireKey(text: string, origin: string): string {
  const key = text.trim()
  if (!/^[!-~]+$/.test(key)) {
    throw new InvalidRequestError(
      'invalid_api_key_file',
      `${origin} must hold one API key of printable ASCII characters`,
    )
  }
  return key
}
