/**
 * Answers batches, those of a few keys side by side. What is done lies in the database, so that a stop or a kill of the server
 * costs the answers since the last piece, which are computed again.
 */
import { createDeferred } from '#base/util/deferred.js'
import type { PluginStart } from '#service/plugin.js'
import { type AnswerContext, type AnswerParts, createAnswering } from './answer-batch.js'
import type { BatchWaker } from './batches.js'
import { listOpen, takeUp } from './storage/batches.js'

export interface BatchRunner extends BatchWaker {
  /** Ends what is asked; it is asked again by the next server. */
  stop(): Promise<void>
}

interface RunnerParts extends Omit<AnswerParts, 'mostWaiting'> {
  /** Does what one of several servers does at a time; null while another does it. Default: there is no other. */
  readonly onDuty?: (action: () => Promise<void>) => Promise<unknown>
}

/** Batches that are worked on, of as many keys; the lines of all share their places. */
const MOST_AT_ONCE = 4
/** Before a batch is taken up again that could not go on. */
const PUT_OFF_MS = 15_000

export function createBatchRunner(
  context: AnswerContext & Pick<PluginStart['context'], 'logger'>,
  parts: RunnerParts,
): BatchRunner {
  const { db, clock, logger } = context
  const { onDuty = (action) => action() } = parts
  const ending = new AbortController()
  const answer = createAnswering(context, { ...parts, mostWaiting: MOST_AT_ONCE * parts.atOnce })
  /** By key: the batches of one go one after the other. */
  const running = new Map<string, Promise<void>>()
  /** By batch: ends its answers. */
  const stops = new Map<string, AbortController>()
  const putOff = new Map<string, number>()
  let looking: Promise<void> | null = null
  let isLookingAgain = false
  let woken = createDeferred<void>()

  async function answerAll(): Promise<void> {
    while (!ending.signal.aborted) {
      for (const { id, keyId } of await listOpen(db)) {
        if (running.size >= MOST_AT_ONCE) break
        if (running.has(keyId) || clock.monotonicMs() < (putOff.get(id) ?? 0)) continue
        const turn = takeTurn(id).finally(() => running.delete(keyId))
        running.set(keyId, turn)
      }
      if (running.size === 0) return
      await Promise.race([...running.values(), woken.promise])
    }
    await Promise.all(running.values())
  }

  async function takeTurn(id: string): Promise<void> {
    const stop = new AbortController()
    stops.set(id, stop)
    try {
      const batch = await takeUp(db, id)
      if (batch !== null) await answer(batch, { ending: ending.signal, stop })
      putOff.delete(id)
    } catch (error) {
      if (ending.signal.aborted) return
      logger.error({ err: error, batch_id: id }, 'batch.put_off')
      putOff.set(id, clock.monotonicMs() + PUT_OFF_MS)
      setTimeout(wake, PUT_OFF_MS + 1).unref()
    } finally {
      stops.delete(id)
    }
  }

  function wake(): void {
    if (ending.signal.aborted) return
    woken.resolve()
    woken = createDeferred()
    // a look that is about to end may have missed what this is about
    isLookingAgain = true
    looking ??= look().finally(() => {
      looking = null
    })
  }

  async function look(): Promise<void> {
    while (isLookingAgain && !ending.signal.aborted) {
      isLookingAgain = false
      try {
        await onDuty(answerAll)
      } catch (error) {
        logger.error({ err: error }, 'batch.look_failed')
      }
    }
  }

  return {
    wake,
    cancel: (id) => stops.get(id)?.abort(),
    stop: async () => {
      ending.abort()
      woken.resolve()
      await looking
    },
  }
}
