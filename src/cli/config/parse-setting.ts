/**
 * One setting's text to its value, with an error that says where the text came from. Knows no setting: `schema.ts` is the table.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { ExpectedError } from './parse-value.js'
import { type SettingKey, type SettingValues, settings } from './schema.js'

/**
 * Parses one setting's text.
 *
 * @param origin where the text came from, for the message: a flag, a variable or a file
 * @throws {InvalidRequestError} `invalid_setting` with what was expected and got
 */
export function parseSetting<K extends SettingKey>(key: K, text: string, origin: string): SettingValues[K] {
  try {
    return settings[key].parse(text)
  } catch (cause) {
    const expected = cause instanceof ExpectedError ? cause.message : 'a valid value'
    const got = settings[key].isSecret === true ? '' : `, got "${text}"`
    throw new InvalidRequestError('invalid_setting', `${origin} must be ${expected}${got}`, { param: key, cause })
  }
}
