/**
 * Answers watched prompts: one at a time, behind every chat, only what was asked for. What waits lies in the database, put there when a prompt
 * is watched and in the transaction that makes a step, so that a stop or a crash of the server forgets none.
 *
 * Answers are greedy, and computed as any chat with the checkpoint is. What cannot be had now (an engine that loads, a full queue) is tried
 * again later; anything else is stored as the answer's error.
 */
import { AppError } from '#base/errors/errors.js'
import { endAnswer, nextQueued, putOffAnswer } from '#service/storage/probes/probes.js'
import type { Principal, ServiceContext } from '../context.js'
import { createChatService } from '../generation/chat/chat.js'

export interface ProbeRunner {
  /** Begins to look for what waits. */
  start(): void
  /** Looks now. */
  wake(): void
  /** Ends the answer that is being computed; it is computed again by the next server. */
  stop(): Promise<void>
}

/** Behind every chat that is not put behind by its own client: the scheduler takes lower numbers first. */
export const PROBE_PRIORITY = 1_000_000_000
/** Between two looks for steps that were made. */
const POLL_MS = 1000
/** Before what could not be had is tried again. */
const RETRY_MS = 15_000

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
  let running: Promise<void> | null = null
  let notBeforeMs = 0

  async function look(): Promise<void> {
    if ((await nextQueued(db)) !== null) await onDuty(answerAll)
  }

  async function answerAll(): Promise<void> {
    while (!ending.signal.aborted) {
      const next = await nextQueued(db)
      if (next === null || !(await answer(next))) return
    }
  }

  /** @returns false where it has to be tried again later */
  async function answer({ probe, step, owner }: Queued): Promise<boolean> {
    const place = { probeId: probe.id, step }
    try {
      const said = await ask({ probe, step, owner })
      if (ending.signal.aborted) return false
      await endAnswer(db, place, { ...said, error: null })
    } catch (error) {
      if (ending.signal.aborted) return false
      if (isForLater(error)) {
        notBeforeMs = clock.nowMs() + RETRY_MS
        await putOffAnswer(db, probe.id, step)
        return false
      }
      logger.warn({ err: error, probe_id: probe.id, model_id: probe.modelId, step }, 'probe.not_answered')
      const message = error instanceof AppError ? error.message : 'the server failed, its log says why'
      const nothing = { text: null, finishReason: null, completionTokens: null, checkpoint: null }
      await endAnswer(db, place, { ...nothing, error: message })
    }
    const { entity, project } = owner
    const data = { probe_id: probe.id, step }
    context.activity.publish({ type: 'probe.answered', owner: { entity, project }, modelId: probe.modelId, data })
    return true
  }

  async function ask({ probe, step, owner: { entity, project, name } }: Queued) {
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
    const admitted = await chat.create(principal, request, `probe-${probe.id}-${step}`, ending.signal)
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
    if (ending.signal.aborted || clock.nowMs() < notBeforeMs) return
    running ??= look()
      .catch((error: unknown) => logger.error({ err: error }, 'probe.look_failed'))
      .finally(() => {
        running = null
      })
  }

  return {
    wake,
    start: () => {
      timer = setInterval(wake, POLL_MS).unref()
    },
    stop: async () => {
      if (timer !== null) clearInterval(timer)
      ending.abort()
      await running
    },
  }
}

/** Whether the same may be had a little later. */
function isForLater(error: unknown): boolean {
  return error instanceof AppError && (error.category === 'unavailable' || error.category === 'rate_limited')
}
