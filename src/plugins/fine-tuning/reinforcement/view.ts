/**
 * A reinforcement job as OpenAI's client sees it: the row that keeps its request, and its loop; with events, checkpoints and
 * the result file.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { unknownCursor } from '#service/storage/paging.js'
import type { LoopEvaluation, LoopEvent, LoopOwner, LoopRecord, LoopService } from '../../loops/loop-service.js'
import { shownTools } from '../../loops/tools.js'
import { fromFineTuningId, toFineTuningId } from '../fine-tuning-id.js'
import { storeResult } from '../result-file.js'
import { type FineTuningLoop, fineTuningLoops } from '../storage/loops.js'
import { frameOf, toSeconds } from '../to-openai.js'
import type { FineTuningCheckpoint, FineTuningEvent, FineTuningJob } from '../wire.js'

/** A job and what came of it. */
export interface Reinforcement {
  readonly record: FineTuningLoop
  readonly loop: LoopRecord
}

/** Columns of result files, by the names that metrics have. */
const COLUMNS = ['step', 'train_mean_reward', 'full_valid_mean_reward']
/** Checkpoints that are listed beside the last one. */
const BEST = 3
const EVENTS = 1000

export type ReinforcementView = ReturnType<typeof createReinforcementView>

export function createReinforcementView(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'clock'>,
  loops: Omit<LoopService, 'create' | 'list'>,
) {
  const { db, clock } = context

  const ownerOf = (principal: Principal, { entity, project }: FineTuningLoop): LoopOwner => ({
    ...{ entity, project },
    keyId: principal.keyId,
  })

  /** @returns null where there is no such loop: its create was cut off */
  async function withLoop(principal: Principal, record: FineTuningLoop): Promise<Reinforcement | null> {
    try {
      return { record, loop: await loops.get(ownerOf(principal, record), record.loopId) }
    } catch (error) {
      if (error instanceof NotFoundError) return null
      throw error
    }
  }

  async function* eventsOf(principal: Principal, { record, loop }: Reinforcement): AsyncGenerator<LoopEvent> {
    for (let after: string | null = null; ; ) {
      const page = await loops.events(ownerOf(principal, record), loop.id, { after, limit: EVENTS })
      yield* page
      after = page.at(-1)?.id ?? null
      if (after === null) return
      await othersTurn()
    }
  }

  /** Oldest first. */
  async function* allEvents(principal: Principal, found: Reinforcement): AsyncGenerator<FineTuningEvent> {
    yield* notesOf(found.record)
    for await (const event of eventsOf(principal, found)) yield toEvent(event)
  }

  /** Written when the job is first read after its end. */
  async function resultOf(principal: Principal, found: Reinforcement): Promise<string | null> {
    const { record, loop } = found
    if (loop.status !== 'succeeded' || record.resultFileId !== null) return record.resultFileId
    async function* lines(): AsyncGenerator<readonly string[]> {
      yield COLUMNS
      for await (const { type, data } of eventsOf(principal, found)) {
        if (type === 'metrics') yield COLUMNS.map((name) => String(data[name] ?? ''))
      }
    }
    const { loopId, entity, project } = record
    return await storeResult(context, { jobId: loopId, entity, project }, lines(), (transaction, id) =>
      fineTuningLoops.setResult(transaction, loopId, { result_file_id: id }),
    )
  }

  return {
    find: async (principal: Principal, id: string): Promise<Reinforcement | null> => {
      const record = await fineTuningLoops.find(db, principal, fromFineTuningId(id))
      return record === null ? null : await withLoop(principal, record)
    },
    withLoop,
    toWire: async (principal: Principal, found: Reinforcement): Promise<FineTuningJob> => {
      const resultFileId = await resultOf(principal, found)
      const owner = ownerOf(principal, found.record)
      const [last] = await loops.evaluations(owner, found.loop.id, { order: 'newest', limit: 1 })
      return toJob({ ...found, record: { ...found.record, resultFileId } }, last, clock.nowMs())
    },
    /** Pauses, resumes or cancels. @throws {InvalidRequestError} `job_already_finished` */
    change: async (
      principal: Principal,
      { record, loop }: Reinforcement,
      act: 'pause' | 'resume' | 'cancel',
    ): Promise<Reinforcement> => {
      const hasEnded = loop.status !== 'queued' && loop.status !== 'running' && loop.status !== 'paused'
      const ended = new InvalidRequestError(
        'job_already_finished',
        `Job has already ${loop.status}: ${toFineTuningId(loop.id)}`,
      )
      if (hasEnded) throw ended
      try {
        return { record, loop: await loops[act](ownerOf(principal, record), loop.id) }
      } catch (error) {
        // OpenAI answers 400 here, and its clients repeat a 409
        if (error instanceof ConflictError && error.code === 'loop_ended') throw ended
        throw error
      }
    },
    /** Newest first. */
    events: (principal: Principal, found: Reinforcement, page: EventPage) =>
      newestOf(allEvents(principal, found), page),
    checkpoints: async (principal: Principal, found: Reinforcement) => {
      const owner = ownerOf(principal, found.record)
      // what was measured before the first step is no checkpoint of the job
      const isStep = ({ loopStep }: LoopEvaluation): boolean => loopStep > 0
      const best = await loops.evaluations(owner, found.loop.id, { order: 'best', limit: BEST + 1 })
      const last = await loops.evaluations(owner, found.loop.id, { order: 'newest', limit: 1 })
      return await listCheckpoints(db, found, [...best.filter(isStep).slice(0, BEST), ...last.filter(isStep)])
    },
  }
}

interface EventPage {
  readonly after: string | undefined
  readonly limit: number
}

/** The newest of those before the cursor, newest first. @param events oldest first */
async function newestOf(
  events: AsyncIterable<FineTuningEvent>,
  { after, limit }: EventPage,
): Promise<{ readonly items: readonly FineTuningEvent[]; readonly hasMore: boolean }> {
  const cursor = after === undefined ? undefined : `ftevent-${after.replace(/^ftevent-/, '')}`
  // and one more
  let items: FineTuningEvent[] = []
  let isFound = cursor === undefined
  for await (const event of events) {
    isFound ||= event.id === cursor
    if (event.id === cursor) break
    items.push(event)
    if (items.length > 2 * limit + 2) items = items.slice(-limit - 1)
  }
  if (!isFound) throw unknownCursor(after ?? '')
  return { items: items.slice(-limit).reverse(), hasMore: items.length > limit }
}

/** Newest first: the best by their reward on rows that are held out, and the last. */
async function listCheckpoints(
  db: Database,
  { record, loop }: Reinforcement,
  evaluations: readonly LoopEvaluation[],
): Promise<readonly FineTuningCheckpoint[]> {
  const byStep = new Map(evaluations.map((each) => [each.loopStep, each]))
  const listed = [...byStep.values()].sort((a, b) => b.loopStep - a.loopStep)
  const found = await Promise.all(
    listed.map(async (each) => {
      const stored = await findCheckpoint(db, loop.spec.modelId, each.checkpointStep)
      return stored === null ? [] : [toCheckpoint(record, each, stored.createdAtMs)]
    }),
  )
  return found.flat()
}

function toJob({ record, loop }: Reinforcement, last: LoopEvaluation | undefined, nowMs: number): FineTuningJob {
  const { request } = record
  return {
    ...frameOf(record, loop),
    estimated_finish: estimateFinish(loop, nowMs),
    error: loop.error === null ? null : { ...loop.error, param: null },
    fine_tuned_model:
      loop.status === 'succeeded' && last !== undefined ? `${record.trainedName}:step${last.checkpointStep}` : null,
    method: {
      type: 'reinforcement',
      reinforcement: {
        grader: loop.spec.grader as Record<string, never>,
        hyperparameters: record.hyperparameters as never,
        response_format: loop.spec.responseFormat as Record<string, never> | null,
        limits: limitsOf(request),
        ...toolsOf(loop.spec),
      },
    },
    status: loop.status,
    trained_tokens: loop.status === 'succeeded' ? loop.spent.trainedTokens : null,
  }
}

function toolsOf({ tools = [], maxEpisodeSteps }: LoopRecord['spec']) {
  if (tools.length === 0 || maxEpisodeSteps === undefined) return {}
  return { tools: shownTools(tools), max_episode_steps: maxEpisodeSteps }
}

function limitsOf(request: JsonObject): Record<string, never> | null {
  const { method } = request as { method?: { reinforcement?: { limits?: Record<string, never> | null } } }
  return method?.reinforcement?.limits ?? null
}

/** By the pace of the steps so far; null before the first and after the end. */
function estimateFinish({ status, step, spec, startedAtMs }: LoopRecord, nowMs: number): number | null {
  if (status !== 'running' || startedAtMs === null || step === 0) return null
  return toSeconds(nowMs + (Math.max(0, nowMs - startedAtMs) / step) * Math.max(0, spec.steps - step))
}

/** What was said of the request, before anything that the loop says. */
function notesOf({ loopId, notes, createdAtMs }: FineTuningLoop): FineTuningEvent[] {
  return notes.map(({ level, message }, i) =>
    toEvent({ id: `${loopId}-${i}`, type: 'message', level, message, data: {}, createdAtMs }),
  )
}

function toEvent({ id, createdAtMs, level, message, type, data }: LoopEvent): FineTuningEvent {
  return {
    id: `ftevent-${id}`,
    object: 'fine_tuning.job.event',
    created_at: toSeconds(createdAtMs),
    ...{ level, message, type },
    data: data as FineTuningEvent['data'],
  }
}

function toCheckpoint(
  { trainedName, loopId }: FineTuningLoop,
  { loopStep, checkpointStep, trainReward, validReward }: LoopEvaluation,
  createdAtMs: number,
): FineTuningCheckpoint {
  return {
    id: `ftckpt-${loopId}-${loopStep}`,
    object: 'fine_tuning.job.checkpoint',
    created_at: toSeconds(createdAtMs),
    fine_tuned_model_checkpoint: `${trainedName}:step${checkpointStep}`,
    fine_tuning_job_id: toFineTuningId(loopId),
    metrics: {
      step: loopStep,
      ...(trainReward === null ? {} : { train_mean_reward: trainReward }),
      full_valid_mean_reward: validReward,
    },
    step_number: loopStep,
  }
}
