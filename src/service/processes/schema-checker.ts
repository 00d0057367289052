/**
 * Checks finished answers against their JSON Schemas, for schemas with keywords that generation cannot enforce.
 *
 * One process for each check, bounded in time and memory, because anybody may send a schema. Keys take turns.
 */
import { runInNewContext } from 'node:vm'
import { RuntimeError } from '#base/errors/errors.js'
import { askProcess } from '#base/processes/ask-process.js'
import { startChild } from '#base/processes/child.js'
import { createTurns } from '#base/util/turns.js'
import { checkedPattern } from './checked-pattern.js'
import type { SchemaCheckAnswer, SchemaCheckData } from './schema-check-main.js'

export interface SchemaChecker {
  /**
   * @param key whose answer it is
   * @param value JSON text
   * @param schema JSON text
   * @returns one sentence for each violation; one that says why there was no check, where there was none
   */
  check(key: string, value: string, schema: string): Promise<readonly string[]>
  /** As `check`, of a text that a regular expression is to match as a whole. */
  match(key: string, text: string, pattern: string): Promise<readonly string[]>
}

const LIMIT_MS = 10_000
/** Matching that is over in so long is done here: a process takes as long to start as a hundred of these. */
const QUICK_MS = 10
const QUICK_PATTERN = 1000
const QUICK_TEXT = 20_000
const MAX_HEAP_MIB = 128
const WAITING = { what: 'checks of answers', mostWaiting: 400, mostOfOneKey: 100, atOnce: 1, spare: 1 }

/** @param options.environment of the processes */
export function createSchemaChecker(options: {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly limitMs?: number
}): SchemaChecker {
  const { environment, limitMs = LIMIT_MS } = options
  const turns = createTurns(WAITING)
  const never = new AbortController().signal

  async function run(data: SchemaCheckData): Promise<readonly string[]> {
    const flags = [`--max-old-space-size=${MAX_HEAP_MIB}`]
    const child = startChild('service/processes/schema-check-main.js', { environment, flags })
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, limitMs)
    try {
      const died = (how: string): Error =>
        new RuntimeError(
          'schema_check_failed',
          isLate ? `it took longer than ${limitMs / 1000} s` : `its process ${how}`,
        )
      return (await askProcess<SchemaCheckAnswer>(child, data, { died }).answer).violations
    } finally {
      clearTimeout(timer)
      child.kill('SIGKILL')
    }
  }

  const check: SchemaChecker['check'] = async (key, value, schema) => {
    try {
      return await turns.take(key, never, () => run({ value, schema }))
    } catch (error) {
      return [`the answer was not checked against its schema: ${error instanceof Error ? error.message : error}`]
    }
  }
  /** Expressions that took too long here. */
  const slow = new Set<string>()

  return {
    check,
    match: async (key, text, pattern) => {
      const whole = `^(?:${pattern})$`
      const isMatch = slow.has(pattern) ? null : matchQuickly(whole, text)
      if (isMatch !== null) return isMatch ? [] : ['the answer does not match the regular expression']
      if (slow.size >= MOST_SLOW) slow.clear()
      slow.add(pattern)
      return check(key, JSON.stringify(text), JSON.stringify({ type: 'string', pattern: whole }))
    },
  }
}

const MOST_SLOW = 100

/** Null where it is not known in a few milliseconds. */
function matchQuickly(pattern: string, text: string): boolean | null {
  if (pattern.length > QUICK_PATTERN || text.length > QUICK_TEXT) return null
  try {
    const whole = checkedPattern(pattern)
    // V8 ends an expression that backtracks where a script is ended
    return runInNewContext('whole.test(text)', { whole, text }, { timeout: QUICK_MS }) === true
  } catch {
    return null
  }
}
