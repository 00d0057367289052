/**
 * Workers that are started on other machines as there is work: which plugin does it, and how many there should be.
 */
import { AppError } from '#base/errors/errors.js'
import type { SuppliedQueue } from '../plugin.js'
import type { WorkerSupply } from '../queue/unclaimable.js'
import { readQueueState } from '../storage/jobs/queue-state.js'
import type { Jobs } from './jobs.js'
import { type Start, startEnvironment } from './start.js'
import type { Storage } from './storage.js'

interface SupplyInput {
  readonly storage: Pick<Storage, 'db' | 'ids' | 'peers'>
  readonly jobs: Pick<Jobs, 'dispatcher' | 'sessions'>
}

/**
 * Reads the address that is set before anything runs; nothing is sent until `start`.
 *
 * @returns null where none is set
 * @throws {AppError} `invalid_workers`
 */
export async function openWorkerSupply(
  start: Start,
  input: SupplyInput,
): Promise<(WorkerSupply & { start(): void }) | null> {
  const { settings, plugins, logger, lifetimes, options } = start
  const address = settings.workers
  if (address === null) return null
  const rows = plugins.list.flatMap(({ plugin }) => (plugin.workerSupplies ?? []).map((row) => ({ plugin, row })))
  const found = rows.find(({ row }) => URL.canParse(address) && new URL(address).protocol === row.protocol)
  if (found === undefined) {
    const places = rows.map(({ row }) => row.place).join(' or ')
    const expected = places === '' ? 'be left out, as no plugin starts workers' : `be an address of ${places}`
    const [first] = rows
    throw new AppError(
      'invalid_request',
      'invalid_workers',
      `--workers must ${expected}, got "${address.slice(0, 200)}"`,
      first && { hint: `for example ${first.row.example}` },
    )
  }
  const { plugin, row } = found
  return row.open({
    ...{ address, logger, lifetimes, ids: input.storage.ids, publicUrl: settings.publicUrl },
    environment: startEnvironment(start),
    tuning: options.tuning?.plugins?.[plugin.name],
    queue: suppliedQueue(settings.trainWorkers, input),
  })
}

function suppliedQueue(trainWorkers: number, { storage, jobs }: SupplyInput): SuppliedQueue {
  const { db, peers } = storage
  const { dispatcher, sessions } = jobs
  return {
    wanted: async (isOwn) => {
      const { waiting, active } = await readQueueState(db)
      const taken = waiting.filter((job) => !dispatcher.isUnclaimable(job))
      const models = new Set([...taken, ...active].map(({ modelId }) => modelId))
      const others = dispatcher.remoteWorkers().filter((worker) => !isOwn(worker))
      // beside other servers sessions are for servers' own workers
      const sessionCount = peers.isShared ? 0 : sessions.load()
      return models.size + sessionCount - peers.count() * trainWorkers - others.length
    },
    workers: dispatcher.remoteWorkers,
    workersEnded: dispatcher.workersEnded,
    lastingDuty: peers.lastingDuty,
  }
}
