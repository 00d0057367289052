/**
 * Listing, deleting and downloading checkpoints.
 *
 * Deleting the latest is allowed: "latest" then means the newest that is left, or the base model, and step numbers go
 * on from where they were. The one a running job trains from stays: it is reported beside what was deleted, and refused
 * when it was the only one. A checkpoint that is answering may be deleted: those answers finish, because the engine
 * holds the weights in memory; new requests for it get 404.
 */

import type { Readable } from 'node:stream'
import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import type {
  Checkpoint,
  CheckpointFiles,
  CheckpointFilesQuery,
  DeleteCheckpointsResponse,
  KeepRuleView,
} from '#contract/wire/checkpoints.js'
import { DEFAULT_PAGE_LIMIT, type List, type OrderedPageQuery, toList } from '#contract/wire/list.js'
import {
  type CheckpointRecord,
  deleteCheckpointRows,
  findCheckpoint,
  listCheckpoints,
  listSteps,
} from '#service/storage/checkpoints.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { ModelRecord } from '#service/storage/models.js'
import { listUnfinishedJobs } from '#service/storage/training-jobs.js'
import { findKeepRule, setKeepRule } from '#service/storage/upkeep/kept-checkpoints.js'
import type { Principal, ServiceContext } from '../context.js'
import { toWireCheckpoint } from '../to-wire.js'
import { openCheckpointBlob } from './checkpoint-blobs.js'
import { exportRequest } from './checkpoint-exports.js'
import { assertKeepRule, stepsToDrop } from './kept-checkpoints.js'
import { requireModel } from './models.js'

export interface CheckpointService {
  list(principal: Principal, modelId: string, query: OrderedPageQuery): Promise<List<Checkpoint>>
  delete(principal: Principal, modelId: string, steps: readonly number[]): Promise<DeleteCheckpointsResponse>
  keepRule(principal: Principal, modelId: string): Promise<KeepRuleView>
  /** @param rule null: the server's. @throws {InvalidRequestError} `invalid_value` for one that says nothing */
  setKeepRule(principal: Principal, modelId: string, rule: string | null): Promise<KeepRuleView>
  files(principal: Principal, modelId: string, step: string, query: CheckpointFilesQuery): Promise<CheckpointFiles>
  openFile(
    principal: Principal,
    modelId: string,
    file: { readonly step: string; readonly name: string },
    query: CheckpointFilesQuery,
  ): Promise<OpenCheckpointFile>
}

export interface OpenCheckpointFile {
  readonly sizeBytes: number
  /** Null for a file that is made while it is sent. */
  readonly sha256: string | null
  readonly stream: Readable
}

export function createCheckpointService(
  context: Pick<
    ServiceContext,
    'db' | 'blobs' | 'engines' | 'exporter' | 'baseModels' | 'activity' | 'requestSweep' | 'keepRule' | 'keepOptimizers'
  >,
): CheckpointService {
  const { db } = context

  async function viewOf({ id }: ModelRecord): Promise<KeepRuleView> {
    const rule = await findKeepRule(db, id)
    return {
      model_id: id,
      rule,
      server_rule: context.keepRule,
      keep_optimizers: context.keepOptimizers,
      drops: [...(await stepsToDrop(db, id, rule ?? context.keepRule))],
    }
  }

  async function requireCheckpoint(
    principal: Principal,
    modelId: string,
    step: string,
  ): Promise<{ readonly model: ModelRecord; readonly checkpoint: CheckpointRecord | null }> {
    const model = await requireModel(context, principal, modelId)
    const wanted = step === 'latest' ? step : /^\d{1,9}$/.test(step) ? Number(step) : null
    const checkpoint = wanted === null ? null : await findCheckpoint(db, model.id, wanted)
    // step 0 is the base model, and "latest" of a model that was never trained
    if (checkpoint === null && wanted !== 0 && wanted !== 'latest') {
      throw new NotFoundError(
        'checkpoint_not_found',
        `model "${model.name}" has no checkpoint at step "${step.slice(0, 40)}"`,
      )
    }
    return { model, checkpoint }
  }

  return {
    list: async (principal, modelId, query) => {
      const model = await requireModel(context, principal, modelId)
      const page = await listCheckpoints(db, model.id, {
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
        order: query.order ?? 'asc',
      })
      return toList(page.items.map(toWireCheckpoint), page.hasMore)
    },
    delete: async (principal, modelId, steps) => {
      const model = await requireModel(context, principal, modelId)
      const wanted = [...new Set(steps)]
      const result = await inTransaction(db, async (transaction) => {
        const existing = new Map((await listSteps(transaction, model.id)).map((c) => [c.step, c.adapterDigest]))
        const inUse = new Set<number>()
        for (const job of await listUnfinishedJobs(transaction, model.id)) {
          if (job.status !== 'running' || job.parentStep === null) continue
          if (!existing.has(job.parentStep) || !wanted.includes(job.parentStep)) continue
          inUse.add(job.parentStep)
          if (wanted.every((step) => inUse.has(step) || !existing.has(step))) {
            throw new ConflictError(
              'checkpoint_in_use',
              `the checkpoint at step ${job.parentStep} is being trained from by training job "${job.id}"`,
              { hint: 'wait for the job, or cancel it', details: { job_id: job.id, step: job.parentStep } },
            )
          }
        }
        const found = wanted.filter((step) => existing.has(step) && !inUse.has(step))
        await deleteCheckpointRows(transaction, model.id, found)
        return { digests: found.map((step) => existing.get(step) ?? ''), found, existing, inUse }
      })
      for (const digest of result.digests) context.engines.forgetAdapter(digest)
      if (result.found.length > 0) {
        const data = { steps: result.found }
        context.activity.publish({ type: 'checkpoint.deleted', owner: model, modelId: model.id, data })
      }
      context.requestSweep()
      return {
        deleted_count: result.found.length,
        not_found_steps: wanted.filter((step) => !result.existing.has(step)),
        in_use_steps: [...result.inUse],
      }
    },
    keepRule: async (principal, modelId) => viewOf(await requireModel(context, principal, modelId)),
    setKeepRule: async (principal, modelId, rule) => {
      if (rule !== null) assertKeepRule(rule, 'rule')
      const model = await requireModel(context, principal, modelId)
      await inTransaction(db, (transaction) => setKeepRule(transaction, model.id, rule))
      context.requestSweep()
      return viewOf(model)
    },
    files: async (principal, modelId, step, query) => {
      const { model, checkpoint } = await requireCheckpoint(principal, modelId, step)
      const head = { model_id: model.id, step: checkpoint?.step ?? 0 }
      const request = await exportRequest(context, { model, checkpoint, query })
      const files: readonly { name: string; sizeBytes: number; sha256?: string }[] =
        request === null ? (checkpoint?.files ?? []) : await context.exporter.list(principal.keyId, request)
      return {
        ...head,
        format: query.format ?? 'peft',
        files: files.map(({ name, sizeBytes, sha256 = null }) => ({ name, size_bytes: sizeBytes, sha256 })),
      }
    },
    openFile: async (principal, modelId, { step, name }, query) => {
      const { model, checkpoint } = await requireCheckpoint(principal, modelId, step)
      const notFound = (): NotFoundError =>
        new NotFoundError('file_not_found', `the checkpoint has no file "${name.slice(0, 100)}"`)
      const request = await exportRequest(context, { model, checkpoint, query })
      if (request !== null) {
        const made = await context.exporter.open(principal.keyId, request, name)
        if (made === null) throw notFound()
        return { ...made, sha256: null }
      }
      const file = checkpoint?.files.find((entry) => entry.name === name)
      if (file === undefined || checkpoint === null) throw notFound()
      const stream = await openCheckpointBlob(context, { ...file, model, step: checkpoint.step })
      return { sizeBytes: file.sizeBytes, sha256: file.sha256, stream }
    },
  }
}
