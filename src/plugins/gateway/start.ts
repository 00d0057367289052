/**
 * What the gateway does beside requests: the recorder, which is loaded with the first call that passes, and calls that go when
 * their time is over.
 */
import type { PluginStart } from '#service/plugin.js'
import type { Recorder, RecorderLimits } from './record/recorder.js'
import type { gatewaySettings } from './settings.js'

export interface GatewayStarted {
  recorder(): Promise<Recorder>
  /** Calls that passed by now are written when it is done. */
  settle(): Promise<void>
  /** Is called when the service ends. */
  atEnd(end: () => void): void
}

type Tuning = Partial<RecorderLimits> & { readonly sweepMs?: number }

export async function startGateway(core: PluginStart<typeof gatewaySettings>): Promise<GatewayStarted> {
  const { context, lifetimes, onDuty } = core
  const { sweepMs = 600_000, ...limits }: Tuning = { ...core.tuning }
  let opening: Promise<Recorder> | null = null
  let opened: Recorder | null = null
  let sweeping: Promise<unknown> = Promise.resolve()
  const ends: (() => void)[] = []
  lifetimes.add('gateway', async () => {
    for (const end of ends) end()
    await sweeping
    await (await opening)?.close()
  })
  core.metrics.addGauge({
    name: 'trainyard_gateway_lost_calls',
    help: 'Calls that the gateway passed on and lost for the record, since the start',
    labels: [],
    read: () => [{ labels: {}, value: opened?.lost() ?? 0 }],
  })
  core.onListening(() => {
    const sweep = async (): Promise<void> => (await import('./storage/calls.js')).trimAll(context.db)
    const timer = setInterval(() => {
      sweeping = onDuty('gateway', sweep).catch((err: unknown) => context.logger.error({ err }, 'gateway.sweep_failed'))
    }, sweepMs).unref()
    ends.push(() => clearInterval(timer))
  })
  return {
    recorder: () => {
      opening ??= import('./record/recorder.js').then(({ createRecorder }) => {
        opened = createRecorder(context, limits)
        return opened
      })
      return opening
    },
    settle: async () => (await opening)?.settle(),
    atEnd: (end) => ends.push(end),
  }
}
