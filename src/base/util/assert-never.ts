/**
 * Marks a branch the type system proves unreachable, so that a new union member does not compile until it is handled.
 */

/**
 * Throws; call it in the `default` of an exhaustive `switch`.
 *
 * @throws {Error} always, naming the value that should not exist
 */
export function assertNever(value: never): never {
  throw new Error(`unreachable case: ${JSON.stringify(value)}`)
}
