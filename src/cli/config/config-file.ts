/**
 * The settings file: one flat JSON object, keys as in the settings table, mode 0600, replaced atomically.
 *
 * An unknown key is an error with a did-you-mean, so that a typo never silently does nothing.
 */
import { chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { toWriteError } from '#base/errors/file-errors.js'
import { createFolders } from '#base/util/create-folders.js'
import { moveFile } from '#base/util/move-file.js'
import { closest } from '#base/util/suggest.js'
import { parseSetting } from './parse-setting.js'
import { isSettingKey, type SettingKey, settingKeys } from './schema.js'

/** Settings as text, the way flags and variables give them. */
export type FileSettings = Readonly<Partial<Record<SettingKey, string>>>

/** No command works while the file is broken, so what to do is said where that is said. */
const REPAIR = 'repair it, or move it away to go on without settings of yours'

/** Also where the file is not there: a user that was changed to has the home of the one before, which it may not look into. */
const NOT_ALLOWED = 'set HOME or XDG_CONFIG_HOME to a folder that this user may read; it may be empty'

/**
 * Reads and checks the file; a missing file is an empty one.
 *
 * @throws {InvalidRequestError} `invalid_config_file` when it is not JSON, has unknown keys, or a value is malformed
 */
export async function readConfigFile(path: string): Promise<FileSettings> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    if (isMissing(cause)) return {}
    const { code } = cause as NodeJS.ErrnoException
    const hint = code === 'EACCES' || code === 'EPERM' ? NOT_ALLOWED : REPAIR
    throw new InvalidRequestError('invalid_config_file', `${path} cannot be read (${code ?? cause})`, { cause, hint })
  }
  return parseConfig(text, path)
}

/**
 * Sets (`text`) or removes (`null`) one key and writes the file back.
 *
 * @throws {AppError} `disk_full`; {InvalidRequestError} `file_unwritable`
 */
export async function updateConfigFile(path: string, key: SettingKey, text: string | null): Promise<void> {
  const { [key]: _previous, ...rest } = await readConfigFile(path)
  const next = text === null ? rest : { ...rest, [key]: text }
  const draft = `${path}.${process.pid}.partial`
  try {
    await createFolders(dirname(path), 0o700)
    await writeFile(draft, `${JSON.stringify(next, null, 2)}\n`, { mode: 0o600 })
    await chmod(draft, 0o600)
    await moveFile(draft, path)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw toWriteError(error, path) ?? error
  }
}

/**
 * A key typed by a person.
 *
 * @throws {NotFoundError} `unknown_setting` with the nearest key
 */
export function requireSettingKey(key: string): SettingKey {
  if (isSettingKey(key)) return key
  const near = closest(key, settingKeys)
  throw new NotFoundError('unknown_setting', `setting "${key}" does not exist`, {
    hint: near === undefined ? 'trainyard config list' : `did you mean ${near}? trainyard config list shows all`,
  })
}

function parseConfig(text: string, path: string): FileSettings {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (cause) {
    throw new InvalidRequestError('invalid_config_file', `${path} is not valid JSON`, { cause, hint: REPAIR })
  }
  if (typeof document !== 'object' || document === null || Array.isArray(document)) {
    throw new InvalidRequestError('invalid_config_file', `${path} must hold one JSON object`, { hint: REPAIR })
  }
  const result: Partial<Record<SettingKey, string>> = {}
  for (const [key, value] of Object.entries(document)) {
    if (!isSettingKey(key)) {
      const near = closest(key, settingKeys)
      const hint = near === undefined ? undefined : `did you mean ${near}?`
      throw new InvalidRequestError('invalid_config_file', `${path}: unknown setting "${key}"`, { param: key, hint })
    }
    const asText = Array.isArray(value) ? value.join(',') : String(value)
    parseSetting(key, asText, `${path}: ${key}`)
    result[key] = asText
  }
  return result
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')
}
