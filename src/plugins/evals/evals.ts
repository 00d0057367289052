/**
 * What is asked of evals. Who answers their runs is `run-runner.ts`; both know each other by rows.
 */
import { AppError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { MAX_METADATA } from '#contract/wire/compatible/metadata.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { readCriteria } from './criteria.js'
import { checkSource, readRunRows } from './run-source.js'
import {
  countEvals,
  countItems,
  countOpenRuns,
  deleteEval,
  deleteRun,
  type EvalRecord,
  endRun,
  findEval,
  findItem,
  findRun,
  type ItemRecord,
  insertEval,
  insertRun,
  listEvals,
  listItems,
  listRuns,
  type RunRecord,
  readResults,
  updateEval,
} from './storage/evals.js'
import type { CreateEvalRequest, CreateRunRequest, Eval, EvalRun, ItemStatus, OutputItem, RunStatus } from './wire.js'

/** Of one entity. */
const MOST_EVALS = 1000
const MOST_OPEN_RUNS = 32

interface PageOf<Status> {
  readonly after?: string | undefined
  readonly limit?: number | undefined
  readonly order?: 'asc' | 'desc' | undefined
  readonly status?: Status | undefined
}

/** Tells who answers runs that there is something new, or that one is to end. */
export interface RunWaker {
  wake(): void
  cancel(id: string): void
}

type Context = Pick<ServiceContext, 'db' | 'ids' | 'clock' | 'blobs'>
type Parts = ReturnType<typeof createParts>

/** What operations of evals and of runs share. */
function createParts({ db }: Context) {
  async function requireEval(principal: Principal, id: string): Promise<EvalRecord> {
    const found = await findEval(db, principal, id)
    if (found !== null) return found
    throw new NotFoundError('eval_not_found', `eval "${id.slice(0, 100)}" was not found`, { param: 'eval_id' })
  }

  async function requireRun(principal: Principal, evalId: string, id: string): Promise<RunRecord> {
    const run = await findRun(db, (await requireEval(principal, evalId)).id, id)
    if (run !== null) return run
    throw new NotFoundError('eval_run_not_found', `run "${id.slice(0, 100)}" was not found`, { param: 'run_id' })
  }

  /** Makes something once for each idempotency key. */
  async function once(
    principal: Principal,
    given: { readonly scope: string; readonly key: string | null; readonly request: unknown },
    make: (transaction: Parameters<Parameters<typeof inTransaction>[1]>[0]) => Promise<string>,
  ): Promise<string> {
    const { key } = given
    const scope = key === null ? null : { ...ownerOf(principal), scope: given.scope, key }
    const digest = digestOf([given.request as JsonObject])
    return await inTransaction(db, async (transaction) => {
      const before = scope === null ? null : await findIdempotent(transaction, scope, digest)
      if (before !== null) return before
      const made = await make(transaction)
      if (scope !== null) await rememberIdempotent(transaction, scope, digest, made)
      return made
    })
  }

  return { requireEval, requireRun, once }
}

export function createEvalService(context: Context, waker: RunWaker) {
  const parts = createParts(context)
  return { ...createEvals(context, waker, parts), ...createRuns(context, waker, parts), ...createItems(context, parts) }
}

function createEvals({ db, ids, clock }: Context, waker: RunWaker, { requireEval, once }: Parts) {
  return {
    create: async (principal: Principal, request: CreateEvalRequest, key: string | null): Promise<Eval> => {
      const { type, item_schema: schema } = request.data_source_config
      if (type !== 'custom') {
        throw new InvalidRequestError(
          'unsupported_parameter',
          `data_source_config.type must be "custom", got "${type}"`,
          {
            param: 'data_source_config.type',
            hint: 'nothing is kept of logs and completions: rows are your own',
          },
        )
      }
      assertMetadata(request.metadata)
      const criteria = readCriteria(request.testing_criteria as readonly JsonObject[])
      const id = await once(principal, { scope: 'evals', key, request }, async (transaction) => {
        const count = await countEvals(transaction, principal.entity)
        if (count >= MOST_EVALS)
          throw tooMany('too_many_evals', `${count} evals are there; an entity may have ${MOST_EVALS}`)
        const made = `eval_${ids.uuid()}`
        await insertEval(transaction, {
          id: made,
          ...{ entity: principal.entity, project: principal.project },
          name: request.name ?? made,
          metadata: request.metadata ?? null,
          spec: { schema: (schema ?? {}) as JsonObject, criteria },
          createdAtMs: clock.nowMs(),
        })
        return made
      })
      return toWireEval(await requireEval(principal, id))
    },
    list: async (principal: Principal, { after, limit, order }: PageOf<never>): Promise<List<Eval>> => {
      const page = await listEvals(db, principal, { after, limit: limit ?? DEFAULT_PAGE_LIMIT, order: order ?? 'asc' })
      return toList(page.items.map(toWireEval), page.hasMore)
    },
    get: async (principal: Principal, id: string): Promise<Eval> => toWireEval(await requireEval(principal, id)),
    update: async (
      principal: Principal,
      id: string,
      { name, metadata }: Pick<CreateEvalRequest, 'name' | 'metadata'>,
    ): Promise<Eval> => {
      assertMetadata(metadata)
      const found = await requireEval(principal, id)
      await updateEval(db, found.id, {
        ...(name == null ? {} : { name }),
        ...(metadata === undefined ? {} : { metadata }),
      })
      return toWireEval(await requireEval(principal, found.id))
    },
    delete: async (principal: Principal, id: string) => {
      const found = await requireEval(principal, id)
      const open = await listRuns(db, found.id, { limit: 100, order: 'desc', status: 'in_progress' })
      await deleteEval(db, found.id)
      for (const run of open.items) waker.cancel(run.id)
      return { object: 'eval.deleted', deleted: true, eval_id: found.id } as const
    },
  }
}

function createRuns(context: Context, waker: RunWaker, { requireEval, requireRun, once }: Parts) {
  const { db, ids, clock, blobs } = context
  const toWireRun = createRunView(context)
  return {
    createRun: async (
      principal: Principal,
      evalId: string,
      request: CreateRunRequest,
      key: string | null,
    ): Promise<EvalRun> => {
      const found = await requireEval(principal, evalId)
      assertMetadata(request.metadata)
      const given = request.data_source as JsonObject
      const source = checkSource(given)
      const rows = await readRunRows({ db, blobs }, principal, given)
      const items = rows.map(({ item, sample }) => stringifyExact({ item, sample } as JsonObject))
      const wanted = { scope: 'eval-runs', key, request: [found.id, stringifyExact(request as JsonValue)] }
      const id = await once(principal, wanted, async (transaction) => {
        const open = await countOpenRuns(transaction, principal.entity)
        if (open >= MOST_OPEN_RUNS) {
          throw tooMany('too_many_eval_runs', `${open} runs have not ended; an entity may have ${MOST_OPEN_RUNS}`)
        }
        const made = `evalrun_${ids.uuid()}`
        const run = {
          ...{ id: made, evalId: found.id, entity: principal.entity, project: principal.project },
          ...{ keyId: principal.keyId, usageProject: principal.usageProject, name: request.name ?? made },
          ...{ metadata: request.metadata ?? null, source, createdAtMs: clock.nowMs() },
        }
        await insertRun(transaction, ids, run, items)
        return made
      })
      waker.wake()
      return await toWireRun(await requireRun(principal, found.id, id))
    },
    listRuns: async (principal: Principal, evalId: string, query: PageOf<RunStatus>): Promise<List<EvalRun>> => {
      const { after, limit = DEFAULT_PAGE_LIMIT, order = 'asc', status } = query
      const page = await listRuns(db, (await requireEval(principal, evalId)).id, { after, limit, order, status })
      return toList(await Promise.all(page.items.map(toWireRun)), page.hasMore)
    },
    getRun: async (principal: Principal, evalId: string, id: string): Promise<EvalRun> =>
      await toWireRun(await requireRun(principal, evalId, id)),
    /** What is measured stays. */
    cancelRun: async (principal: Principal, evalId: string, id: string): Promise<EvalRun> => {
      const run = await requireRun(principal, evalId, id)
      const end = { status: 'canceled', error: null, nowMs: clock.nowMs(), isForced: true } as const
      await inTransaction(db, (transaction) => endRun(transaction, ids, run, end))
      waker.cancel(run.id)
      return await toWireRun(await requireRun(principal, evalId, run.id))
    },
    deleteRun: async (principal: Principal, evalId: string, id: string) => {
      const run = await requireRun(principal, evalId, id)
      await deleteRun(db, run.id)
      waker.cancel(run.id)
      return { object: 'eval.run.deleted', deleted: true, run_id: run.id } as const
    },
  }
}

function createItems({ db }: Context, { requireRun }: Parts) {
  return {
    listItems: async (
      principal: Principal,
      { evalId, runId }: { readonly evalId: string; readonly runId: string },
      query: PageOf<ItemStatus>,
    ): Promise<List<OutputItem>> => {
      const run = await requireRun(principal, evalId, runId)
      const { after, limit = DEFAULT_PAGE_LIMIT, order = 'asc', status } = query
      const page = await listItems(db, run.id, { after, limit, order, status })
      return toList(
        page.items.map((item) => toWireItem(run, item)),
        page.hasMore,
      )
    },
    getItem: async (principal: Principal, evalId: string, runId: string, id: string): Promise<OutputItem> => {
      const run = await requireRun(principal, evalId, runId)
      const item = await findItem(db, run.id, id)
      if (item !== null) return toWireItem(run, item)
      throw new NotFoundError('output_item_not_found', `output item "${id.slice(0, 100)}" was not found`)
    },
  }
}

/** Runs as the API has them, with what their items come to. */
function createRunView({ db }: Context) {
  async function sumsOf({
    id,
  }: RunRecord): Promise<Pick<EvalRun, 'result_counts' | 'per_model_usage' | 'per_testing_criteria_results'>> {
    const counts = await countItems(db, id)
    const criteria = new Map<string, { passed: number; failed: number }>()
    const usage = new Map<string, EvalRun['per_model_usage'][number]>()
    const use = (model: string, used: OutputItem['sample']['usage']): void => {
      const sum = usage.get(model) ?? {
        ...{ model_name: model, invocation_count: 0, prompt_tokens: 0, completion_tokens: 0 },
        ...{ cached_tokens: 0, total_tokens: 0 },
      }
      usage.set(model, {
        model_name: model,
        invocation_count: sum.invocation_count + 1,
        prompt_tokens: sum.prompt_tokens + used.prompt_tokens,
        completion_tokens: sum.completion_tokens + used.completion_tokens,
        cached_tokens: sum.cached_tokens + used.cached_tokens,
        total_tokens: sum.total_tokens + used.total_tokens,
      })
    }
    for await (const { results, sample, graders } of readResults(db, id)) {
      for (const { name, passed } of results) {
        const sum = criteria.get(name) ?? { passed: 0, failed: 0 }
        criteria.set(name, { passed: sum.passed + (passed ? 1 : 0), failed: sum.failed + (passed ? 0 : 1) })
      }
      if (sample.model !== '') use(sample.model, sample.usage)
      for (const [model, used] of Object.entries(graders)) use(model, used)
    }
    const { pass: passed = 0, fail: failed = 0, error: errored = 0, pending = 0 } = counts
    return {
      result_counts: { total: passed + failed + errored + pending, passed, failed, errored },
      per_model_usage: [...usage.values()],
      per_testing_criteria_results: [...criteria].map(([name, sum]) => ({ testing_criteria: name, ...sum })),
    }
  }

  return async (run: RunRecord): Promise<EvalRun> => ({
    object: 'eval.run',
    id: run.id,
    eval_id: run.evalId,
    name: run.name,
    model: typeof run.source['model'] === 'string' ? run.source['model'] : '',
    status: run.status,
    created_at: toSeconds(run.createdAtMs),
    report_url: '',
    ...(await sumsOf(run)),
    data_source: run.source as EvalRun['data_source'],
    error: run.error,
    metadata: run.metadata,
  })
}

function assertMetadata(metadata: CreateEvalRequest['metadata']): void {
  if (Object.keys(metadata ?? {}).length <= MAX_METADATA) return
  throw new InvalidRequestError('invalid_value', `metadata must have at most ${MAX_METADATA} keys`, {
    param: 'metadata',
  })
}

function tooMany(code: string, message: string): AppError {
  return new AppError('rate_limited', code, message, {
    hint: 'delete some, or wait for runs to end',
    details: { retry_after_seconds: 60 },
  })
}

const toSeconds = (timeMs: number): number => Math.floor(timeMs / 1000)

const toWireEval = ({ id, name, metadata, spec, createdAtMs }: EvalRecord): Eval => ({
  object: 'eval',
  id,
  name,
  data_source_config: {
    type: 'custom',
    schema: {
      type: 'object',
      properties: { item: spec.schema },
      required: ['item'],
    } as Eval['data_source_config']['schema'],
  },
  testing_criteria: spec.criteria.map(({ grader }) => grader as Eval['testing_criteria'][number]),
  created_at: toSeconds(createdAtMs),
  metadata,
})

function toWireItem(run: RunRecord, { id, status, position, item, result, createdAtMs }: ItemRecord): OutputItem {
  if (result === null || status === 'pending') throw new Error('an item without a result is not shown')
  return {
    object: 'eval.run.output_item',
    id,
    run_id: run.id,
    eval_id: run.evalId,
    created_at: toSeconds(createdAtMs),
    status,
    datasource_item_id: position,
    datasource_item: (JSON.parse(item) as { item: OutputItem['datasource_item'] }).item,
    results: result.results,
    sample: result.sample,
  }
}
