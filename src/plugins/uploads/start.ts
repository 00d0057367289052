/**
 * Forgets uploads whose hour is over, beside the service.
 */
import type { PluginStart } from '#service/plugin.js'
import { deleteExpired } from './storage/uploads.js'

const SWEEP_MS = 600_000

/** Starts it for a service; it ends with the service. */
export async function startSweeping({ context, lifetimes, onListening }: PluginStart): Promise<void> {
  let timer: NodeJS.Timeout | null = null
  let sweeping: Promise<void> = Promise.resolve()
  const sweep = (): void => {
    sweeping = sweepUploads(context).catch((error: unknown) =>
      context.logger.error({ err: error }, 'uploads.sweep_failed'),
    )
  }
  lifetimes.add('uploads', async () => {
    if (timer !== null) clearInterval(timer)
    await sweeping
  })
  onListening(() => {
    sweep()
    timer = setInterval(sweep, SWEEP_MS).unref()
  })
}

/** Forgets expired uploads; their bytes go with the next sweep of blobs. */
export async function sweepUploads({
  db,
  clock,
  requestSweep,
}: Pick<PluginStart['context'], 'db' | 'clock' | 'requestSweep'>): Promise<void> {
  if ((await deleteExpired(db, clock.nowMs())) > 0) requestSweep()
}
