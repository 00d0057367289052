/**
 * Says what of its schema a finished answer violates, where the schema says more than an answer can be held to.
 *
 * A thread for each, bounded in time and memory: schemas are anybody's. Keys take turns.
 */
import { startThread } from '#base/processes/ask-thread.js'
import { createTurns } from '#base/util/turns.js'
import type { SchemaCheckAnswer, SchemaCheckData } from './schema-check-thread.js'

export interface SchemaChecker {
  /**
   * @param key whose answer it is
   * @param value JSON text
   * @param schema JSON text
   * @returns one sentence for each violation; one that says why there was no check, where there was none
   */
  check(key: string, value: string, schema: string): Promise<readonly string[]>
}

const LIMIT_MS = 10_000
const MAX_HEAP_MIB = 128
const WAITING = { what: 'checks of answers', mostWaiting: 400, mostOfOneKey: 100, atOnce: 1, spare: 1 }

export function createSchemaChecker(limitMs = LIMIT_MS): SchemaChecker {
  const turns = createTurns(WAITING)
  const never = new AbortController().signal
  return {
    check: async (key, value, schema) => {
      try {
        return await turns.take(key, never, () => runCheck({ value, schema }, limitMs))
      } catch (error) {
        return [`the answer was not checked against its schema: ${error instanceof Error ? error.message : error}`]
      }
    },
  }
}

function runCheck(data: SchemaCheckData, limitMs: number): Promise<readonly string[]> {
  const thread = startThread('service/processes/schema-check-thread.js', {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
  })
  return new Promise<readonly string[]>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`it took longer than ${limitMs / 1000} s`)), limitMs)
    thread.once('message', ({ violations }: SchemaCheckAnswer) => resolve(violations))
    thread.once('error', reject)
    thread.once('exit', () => reject(new Error('its thread ended')))
    thread.once('exit', () => clearTimeout(timer))
  }).finally(() => thread.terminate())
}
