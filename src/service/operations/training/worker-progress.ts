/**
 * What a worker reports while its attempt runs: that it lives, events, files, points to go on from; all under its lease.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import {
  CHECKPOINT_FILES,
  type CheckpointFile,
  MAX_CHECKPOINT_FILE_BYTES,
  MAX_ROLLOUTS_BYTES,
} from '#contract/processes/worker.js'
import { appendEvents } from '#service/queue/event-log.js'
import { checkLease, heartbeat, stale, withLease } from '#service/queue/lease.js'
import { countEvents } from '#service/storage/events.js'
import { putJobFile } from '#service/storage/jobs/files.js'
import { ROLLOUTS_FILE, setKeptCounts } from '#service/storage/jobs/kept-data.js'
import { putResumePoint } from '#service/storage/jobs/resume-points.js'
import { extendLease, setJobReport, setJobTrainer, setJobWorker } from '#service/storage/jobs/states.js'
import type { ServiceContext } from '../context.js'
import type { WorkerApiService } from './worker-calls.js'

type Context = Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'signals' | 'dispatcher' | 'leaseMs' | 'requestSweep'>

type WorkerProgress = Pick<
  WorkerApiService,
  'heartbeat' | 'appendEvents' | 'putFile' | 'putResumePoint' | 'putRollouts'
>

export function createWorkerProgress(context: Context): WorkerProgress {
  const { db, blobs, ids, signals, dispatcher } = context
  return {
    heartbeat: async (claim, beat) => {
      // noted before the write: a worker that waits for a full disk lives
      await checkLease(db, claim)
      dispatcher.noteContact(claim, beat.progress ?? null)
      const reply = await heartbeat(db, claim, context.leaseMs, beat.progress ?? null)
      return { is_cancel_requested: reply.isCancelRequested, is_stop_requested: reply.isStopRequested }
    },

    appendEvents: async (claim, batch) => {
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        const events = batch.events.map((event) => ({ type: event.type, data: finiteOnly(event.data) }))
        const added = await appendEvents(transaction, ids, job.id, { offset: batch.offset, events })
        if (batch.report !== undefined) await setJobReport(transaction, job.id, batch.report)
        if (batch.computing !== undefined) {
          const { versions, ...computing } = batch.computing
          const known = job.worker?.['versions'] as JsonObject | undefined
          await setJobWorker(transaction, job.id, { ...job.worker, ...computing, versions: { ...known, ...versions } })
        }
        await extendLease(transaction, job.id, context.leaseMs, { hasAdvanced: added > 0 })
      })
      dispatcher.noteContact(claim, 'moved')
      signals.notify(claim.jobId)
    },

    putFile: async (claim, name, body, sha256) => {
      if (!isCheckpointFile(name)) {
        throw new InvalidRequestError('invalid_value', `file must be one of ${CHECKPOINT_FILES.join(', ')}`, {
          param: 'file',
        })
      }
      await checkLease(db, claim)
      const blob = await blobs.put(body, { maxBytes: MAX_CHECKPOINT_FILE_BYTES, expectedSha256: sha256 })
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        await putJobFile(transaction, claim, { name, sha256: blob.sha256, sizeBytes: blob.sizeBytes })
        await extendLease(transaction, job.id, context.leaseMs)
      })
      dispatcher.noteContact(claim, 'moved')
    },

    putResumePoint: async (claim, body, { sha256, eventCount }) => {
      await checkLease(db, claim)
      const blob = await blobs.put(body, { maxBytes: MAX_CHECKPOINT_FILE_BYTES, expectedSha256: sha256 })
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        const stored = await countEvents(transaction, job.id)
        if (eventCount > stored) {
          throw new InvalidRequestError(
            'event_gap',
            `a resume point covers at most ${stored} events, got ${eventCount}`,
            {
              param: 'x-trainyard-events',
            },
          )
        }
        const { sha256: digest, sizeBytes } = blob
        await putResumePoint(transaction, job.id, {
          parentStep: job.parentStep ?? 0,
          eventCount,
          sha256: digest,
          sizeBytes,
        })
        const trainer = job.worker?.['trainer']
        if (typeof trainer === 'string') await setJobTrainer(transaction, job.id, trainer)
        await extendLease(transaction, job.id, context.leaseMs)
      })
      dispatcher.noteContact(claim, 'moved')
      // the point before has become garbage
      context.requestSweep()
    },

    putRollouts: async (claim, body, { sha256, groups, trajectories }) => {
      await checkLease(db, claim)
      const blob = await blobs.put(body, { maxBytes: MAX_ROLLOUTS_BYTES, expectedSha256: sha256 })
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        await putJobFile(transaction, claim, { name: ROLLOUTS_FILE, sha256: blob.sha256, sizeBytes: blob.sizeBytes })
        await setKeptCounts(transaction, job.id, { groups, trajectories })
        await extendLease(transaction, job.id, context.leaseMs)
      })
      dispatcher.noteContact(claim, 'moved')
    },
  }
}

function isCheckpointFile(name: string): name is CheckpointFile {
  return CHECKPOINT_FILES.some((known) => known === name)
}

/** Clients run `float()` on every value, so only finite numbers leave the server. */
export function finiteOnly(data: Readonly<Record<string, JsonValue>>): Record<string, number> {
  const kept: Record<string, number> = {}
  for (const [name, value] of Object.entries(data)) {
    if (typeof value === 'number' && Number.isFinite(value)) kept[name] = value
  }
  return kept
}
