/**
 * Jobs that no known worker can take, and why, for whoever waits for them. The claim itself asks the database the same
 * question (`findClaimableJob`).
 */
import { maxOf } from '#base/util/lists.js'
import type { Claimant } from '#service/storage/jobs/states.js'
import type { Peers } from './peers.js'

/** Needs of a job that its worker must meet. */
export interface JobNeeds {
  /** Trainer it began with; null: any. */
  readonly trainer: string | null
  /** Null: not known. */
  readonly weightBytes: number | null
}

/** Kind of a worker: the needs that it can meet. */
export type WorkerKind = Pick<Claimant, 'trainers' | 'memoryBytes'>

/** Supply of workers that are started on other machines as there is work, and then ask for it as any of those. */
export interface WorkerSupply {
  /** Kinds of these workers, as far as they are known. */
  kinds(): readonly WorkerKind[]
  /** Faults of the supply, in sentences. */
  notes(): readonly string[]
  /** What a job waits for while nothing is wrong, in a sentence. */
  readonly asked: string
}

export interface Reach {
  /**
   * Why nobody takes a job that waits, in a sentence; null where somebody can, sooner or later.
   *
   * @param baseModel null: not known
   */
  whyUnclaimable(job: JobNeeds, baseModel: string | null): string | null
  /** Whether neither the workers that there are nor those that may come could take it. */
  isUnclaimable(job: JobNeeds): boolean
  /** Faults of the supply of workers, in sentences. */
  notes(): readonly string[]
}

/** The reach of all workers that this server knows of. */
export function createReach(known: {
  readonly peers: Pick<Peers, 'count'>
  readonly kinds: () => readonly WorkerKind[]
  readonly supply: () => WorkerSupply | null
  /** Absent: all. */
  readonly baseModels: () => readonly string[] | undefined
}): Reach {
  const { peers, kinds, supply, baseModels } = known
  return {
    whyUnclaimable: (job, baseModel) => {
      // another server may know somebody
      if (peers.count() > 1) return null
      if (baseModel !== null && baseModels()?.includes(baseModel) === false) {
        return `this server does not have its base model ${baseModel}: start it with --base-model`
      }
      const workers = kinds()
      const coming = supply()
      if (coming !== null && workers.length === 0) {
        return whyUnclaimable(job, coming.kinds()) ?? coming.notes()[0] ?? coming.asked
      }
      return whyUnclaimable(job, workers) ?? coming?.notes()[0] ?? null
    },
    isUnclaimable: (job) =>
      peers.count() === 1 && whyUnclaimable(job, [...kinds(), ...(supply()?.kinds() ?? [])]) !== null,
    notes: () => supply()?.notes() ?? [],
  }
}

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
