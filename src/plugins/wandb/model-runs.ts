/**
 * What the wandb client logged, shown with the model it is about: runs named by the model's run id or by its name.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, type List, type PageQuery, toList } from '#contract/wire/list.js'
import type { Principal } from '#service/operations/access/principal.js'
import type { ServiceContext } from '#service/operations/context.js'
import { requireModel } from '#service/operations/models/models.js'
import { unknownCursor } from '#service/storage/paging.js'
import { toIso } from './context.js'
import { parseLine } from './runs.js'
import { lastHistoryLine, listHistory, listRuns, type RunRecord } from './storage/runs.js'
import type { ModelRun, RunLine } from './wire.js'

export interface ModelRunService {
  list(principal: Principal, modelId: string, query: PageQuery): Promise<List<ModelRun>>
  /** Lines in the order they were logged; `after` is a line's number. */
  history(principal: Principal, modelId: string, runId: string, query: PageQuery): Promise<List<RunLine>>
}

export function createModelRunService(context: Pick<ServiceContext, 'db'>): ModelRunService {
  const { db } = context

  async function runsOf(principal: Principal, modelId: string, page: { after?: string | undefined; limit: number }) {
    const model = await requireModel(context, principal, modelId)
    const names = [model.runId, model.name, model.id]
    return listRuns(db, { entity: model.entity, project: model.project, names, ...page })
  }

  return {
    list: async (principal, modelId, query) => {
      const page = await runsOf(principal, modelId, { after: query.after, limit: query.limit ?? DEFAULT_PAGE_LIMIT })
      const runs: ModelRun[] = []
      for (const run of page.items) runs.push(await toWireRun(run))
      return toList(runs, page.hasMore)
    },
    history: async (principal, modelId, runId, query) => {
      const run = (await runsOf(principal, modelId, { limit: 1000 })).items.find(({ id }) => id === runId)
      if (run === undefined) throw new NotFoundError('run_not_found', `the model has no run "${runId.slice(0, 100)}"`)
      const after = query.after === undefined ? -1 : /^\d{1,9}$/.test(query.after) ? Number(query.after) : null
      if (after === null || after > ((await lastHistoryLine(db, run.id))?.line ?? -1)) {
        throw unknownCursor(query.after ?? '')
      }
      const limit = query.limit ?? DEFAULT_PAGE_LIMIT
      const lines = await listHistory(db, run.id, { afterLine: after, limit: limit + 1 })
      const items = lines
        .slice(0, limit)
        .map((line) => ({ id: String(line.line), metrics: parseLine(line.body) as RunLine['metrics'] }))
      return toList(items, lines.length > limit)
    },
  }

  async function toWireRun(run: RunRecord): Promise<ModelRun> {
    const last = await lastHistoryLine(db, run.id)
    return {
      id: run.id,
      name: run.name,
      display_name: run.displayName,
      state: run.state,
      line_count: last === null ? 0 : last.line + 1,
      config: run.config as ModelRun['config'],
      summary: run.summary as ModelRun['summary'],
      created_at: toIso(run.createdAtMs),
      updated_at: toIso(run.updatedAtMs),
    }
  }
}
