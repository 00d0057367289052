/**
 * Answers watched prompts: one at a time of each base model, behind every chat, only what was asked for. What waits lies in the database,
 * put there when a prompt is watched and in the transaction that makes a step, so that a stop or a crash of the server forgets none.
 *
 * Answers are greedy, and computed as any chat with the checkpoint is. What cannot be had now (an engine that loads, a full queue) is tried
 * again later; anything else is stored as the answer's error.
 */
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { createChatService } from '#service/operations/generation/chat/chat.js'
import { endAnswer, nextQueued, putOffAnswer } from './storage/probes.js'
import { queuedBaseModels } from './storage/queued-answers.js'

export interface ProbeRunner {
  /** Begins to look for what waits, every so often. */
  start(pollMs: number): void
  /** Looks now. */
  wake(): void
  /** Ends the answer to a prompt that was deleted. */
  forget(probeId: string): void
  /** Ends the answer that is being computed; it is computed again by the next server. */
  stop(): Promise<void>
}

/** Behind every chat that is not put behind by its own client: the scheduler takes lower numbers first. */
export const PROBE_PRIORITY = 1_000_000_000
/** Before what could not be had is tried again: at first, and at most after it could not be had again and again. */
const RETRY_MS = 15_000
const LONGEST_RETRY_MS = 600_000
/** Before an answer that does not come makes room for the others of its base model. */
const LONGEST_MS = 300_000

type Context = Parameters<typeof createChatService>[0] & Pick<ServiceContext, 'activity' | 'logger'>
type Queued = NonNullable<Awaited<ReturnType<typeof nextQueued>>>

/** @param onDuty does what one of several servers does at a time; null while another does it. Default: there is no other */
export function createProbeRunner(
  context: Context,
  onDuty: (action: () => Promise<void>) => Promise<unknown> = (action) => action(),
): ProbeRunner {
  const { db, clock, logger } = context
  const chat = createChatService({ ...context, chatRules: { ...context.chatRules, allowsPriority: true } })
  const ending = new AbortController()
  let timer: NodeJS.Timeout | null = null
  let looking: Promise<void> | null = null
  /** By base model: an engine that is busy or broken holds up its own prompts alone. */
  const running = new Map<string, Promise<void>>()
  const putOff = new Map<string, { readonly untilMs: number; readonly waitMs: number }>()
  let woken = createDeferred<void>()
  /** By probe: what ends the answer that is being computed. */
  const asked = new Map<string, AbortController>()

  const logFailure = (error: unknown): void => logger.error({ err: error }, 'probe.look_failed')

  async function look(): Promise<void> {
    const waiting = await queuedBaseModels(db)
    if (waiting.some(isDue)) await onDuty(answerAll)
  }

  const isDue = (baseModel: string): boolean => clock.nowMs() >= (putOff.get(baseModel)?.untilMs ?? 0)

  /** One row of answers for each base model, until nothing waits that is due. */
  async function answerAll(): Promise<void> {
    while (!ending.signal.aborted) {
      for (const baseModel of (await queuedBaseModels(db)).filter(isDue)) {
        if (running.has(baseModel)) continue
        const row = answerThoseOf(baseModel)
          .catch((error: unknown) => {
            logFailure(error)
            putOffAll(baseModel)
          })
          .finally(() => running.delete(baseModel))
        running.set(baseModel, row)
      }
      if (running.size === 0) return
      await Promise.race([...running.values(), woken.promise])
    }
    await Promise.all(running.values())
  }

  async function answerThoseOf(baseModel: string): Promise<void> {
    while (!ending.signal.aborted) {
      const next = await nextQueued(db, baseModel)
      if (next === null || !(await answer(next, baseModel))) return
    }
  }

  function putOffAll(baseModel: string): void {
    const waitMs = Math.min(LONGEST_RETRY_MS, 2 * (putOff.get(baseModel)?.waitMs ?? RETRY_MS / 2))
    putOff.set(baseModel, { untilMs: clock.nowMs() + waitMs, waitMs })
  }

  /** @returns false where it has to be tried again later */
  async function answer({ probe, step, owner }: Queued, baseModel: string): Promise<boolean> {
    const place = { probeId: probe.id, step }
    const forgotten = new AbortController()
    const late = AbortSignal.timeout(LONGEST_MS)
    asked.set(probe.id, forgotten)
    try {
      const signal = AbortSignal.any([ending.signal, forgotten.signal, late])
      const said = await orAborted(ask({ probe, step, owner }, signal), signal)
      if (ending.signal.aborted) return false
      signal.throwIfAborted()
      putOff.delete(baseModel)
      await endAnswer(db, place, { ...said, error: null })
    } catch (error) {
      if (ending.signal.aborted) return false
      if (forgotten.signal.aborted) return true
      if (late.aborted || isForLater(error)) {
        putOffAll(baseModel)
        await putOffAnswer(db, probe.id, step)
        return false
      }
      logger.warn({ err: error, probe_id: probe.id, model_id: probe.modelId, step }, 'probe.not_answered')
      const message = error instanceof AppError ? error.message : 'the server failed, its log says why'
      const nothing = { text: null, finishReason: null, completionTokens: null, checkpoint: null }
      await endAnswer(db, place, { ...nothing, error: message })
    } finally {
      asked.delete(probe.id)
    }
    const { entity, project } = owner
    const data = { probe_id: probe.id, step }
    context.activity.publish({ type: 'probe.answered', owner: { entity, project }, modelId: probe.modelId, data })
    return true
  }

  async function ask({ probe, step, owner: { entity, project, name } }: Queued, signal: AbortSignal) {
    const request = {
      model: `${entity}/${project}/${name}:step${step}`,
      messages: probe.messages.map(({ role, content }) => ({ role, content })),
      max_tokens: probe.maxTokens,
      temperature: 0,
      priority: PROBE_PRIORITY,
    }
    const principal: Principal = {
      entity,
      project,
      keyId: probe.keyId,
      keyPrefix: '',
      sessionId: null,
      scope: 'read',
      usageProject: null,
    }
    const admitted = await chat.create(principal, request, `probe-${probe.id}-${step}`, signal)
    const { choices, usage } = await admitted.response()
    const { message, finish_reason: finishReason } = choices[0] ?? {}
    return {
      text: [message?.reasoning, message?.content].filter((part) => part != null && part !== '').join('\n\n'),
      finishReason: finishReason ?? null,
      completionTokens: usage?.completion_tokens ?? null,
      checkpoint: admitted.checkpoint,
    }
  }

  function wake(): void {
    if (ending.signal.aborted) return
    woken.resolve()
    woken = createDeferred()
    looking ??= look()
      .catch(logFailure)
      .finally(() => {
        looking = null
      })
  }

  return {
    wake,
    forget: (probeId) => asked.get(probeId)?.abort(),
    start: (pollMs) => {
      timer = setInterval(wake, pollMs).unref()
    },
    stop: async () => {
      if (timer !== null) clearInterval(timer)
      ending.abort()
      woken.resolve()
      await looking
    },
  }
}

/** What is asked, or the abortion where it does not heed that: an engine that loads is waited for without a signal. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}

/** Whether the same may be had a little later. */
function isForLater(error: unknown): boolean {
  return error instanceof AppError && (error.category === 'unavailable' || error.category === 'rate_limited')
}
