/**
 * Names of models and projects, which stand in addresses as `entity/project/name:step3`.
 */
import { InvalidRequestError } from '#base/errors/errors.js'

/** Separators of model addresses, and characters a reader cannot see. */
const FORBIDDEN_IN_NAMES = /[/:\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u

/** @throws {InvalidRequestError} `invalid_name` for one that no model or project can have */
export function checkName(field: string, value: string): void {
  if (FORBIDDEN_IN_NAMES.test(value) || value.trim() !== value) {
    throw new InvalidRequestError(
      'invalid_name',
      `${field} must not contain "/", ":", control or invisible characters, nor start or end with a space`,
      { param: field },
    )
  }
}
