/**
 * Expects an `AppError` by its stable code and the words that must be in its message.
 */
import { expect } from 'vitest'
import { AppError } from '../../src/base/errors/errors.js'

/** Runs `action`, sync or async, and checks what it throws. */
export async function expectCode(action: () => unknown, code: string, ...words: string[]): Promise<void> {
  let error: unknown
  try {
    await action()
  } catch (thrown) {
    error = thrown
  }
  if (!(error instanceof AppError)) throw new Error(`expected an error with code ${code}, got ${String(error)}`)
  expect({ code: error.code, message: error.message }).toMatchObject({ code })
  for (const word of words) expect(error.message).toContain(word)
}
