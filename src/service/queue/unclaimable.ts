/**
 * Says why no known worker can take a job, for whoever waits for it. The claim itself asks the database the same
 * question (`findClaimableJob`).
 */
import { maxOf } from '#base/util/lists.js'
import type { Claimant } from '#service/storage/jobs/states.js'

/** What a job needs of its worker. */
export interface JobNeeds {
  /** What it began with; null: any. */
  readonly trainer: string | null
  /** Null: not known. */
  readonly weightBytes: number | null
}

/** What a worker can take. */
export type WorkerKind = Pick<Claimant, 'trainers' | 'memoryBytes'>

/** @returns a sentence for whoever waits for the job; null where one of the workers can take it */
export function whyUnclaimable({ trainer, weightBytes }: JobNeeds, workers: readonly WorkerKind[]): string | null {
  if (workers.length === 0)
    return 'no worker takes jobs: start one with trainyard worker, or the server with --train-workers 1'
  const able = workers.filter(({ trainers }) => trainer === null || trainers.includes(trainer))
  if (able.length === 0) {
    return `the job began with ${trainer} and goes on with nothing else, which no worker has: start one with --trainer ${trainer}`
  }
  const most = maxOf(able.map(({ memoryBytes }) => memoryBytes ?? Number.POSITIVE_INFINITY))
  if (weightBytes === null || weightBytes <= most) return null
  return `the base model alone takes ${gigabytes(weightBytes)} GB, and no worker has more than ${gigabytes(most)} GB of memory`
}

/** Rounded to a tenth. */
function gigabytes(bytes: number): number {
  return Math.round(bytes / 1e8) / 10
}
