/**
 * The page's clock. Nothing else of it reads the time.
 */

/** Milliseconds since 1970. */
export function nowMs(): number {
  return Date.now()
}
