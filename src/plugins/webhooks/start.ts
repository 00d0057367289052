/**
 * What sends, beside the service: nothing of it is loaded before there is a webhook, here or by another server.
 */
import { maxOf } from '#base/util/lists.js'
import { packageVersion } from '#base/util/package-root.js'
import { type AddressRules, createAddressRules, type NameService } from '#service/operations/address-rules.js'
import type { PluginStart } from '#service/plugin.js'
import type { Outbox } from './outbox.js'
import type { webhookSettings } from './settings.js'
import { shortenWaits } from './storage/waits.js'
import { countWebhooks } from './storage/webhook-events.js'
import { DEFAULT_OUTBOX_TIMING, type OutboxTiming } from './timing.js'

// Which addresses webhooks may be at.

/** @param allowedHosts see `createAddressRules` */
export function createWebhookRules(allowedHosts: readonly string[], lookUp?: NameService): AddressRules {
  const refusal = { code: 'webhook_refused', param: 'url', subject: 'url', flag: '--webhook-host' }
  return createAddressRules(allowedHosts, refusal, lookUp)
}

export interface Sending {
  readonly rules: AddressRules
  readonly outbox: Pick<Outbox, 'wake'>
}

/** Starts it for a service; it ends with the service. */
export async function startSending(core: PluginStart<typeof webhookSettings>): Promise<Sending> {
  const { context, settings, serviceSettings, lifetimes, isAlone } = core
  const { db, logger } = context
  const timing: OutboxTiming = { ...DEFAULT_OUTBOX_TIMING, ...core.tuning }
  const rules = createWebhookRules(settings.webhookHosts, context.lookUp)
  // another machine's clock is its own business
  if (serviceSettings.database === null) await shortenWaits(db, 2 * maxOf(timing.retryMs, 0))
  let timer: NodeJS.Timeout | null = null
  let loading: Promise<Outbox> | null = null
  let isStopped = false

  async function load(): Promise<Outbox> {
    const { createOutbox } = await import('./outbox.js')
    const outbox = createOutbox({ ...context, rules, version: packageVersion(), timing, isAlone })
    if (timer !== null) clearInterval(timer)
    if (!isStopped) outbox.start()
    return outbox
  }
  const wake = (): void => {
    if (isStopped) return
    loading ??= load()
    loading.then(
      (outbox) => outbox.wake(),
      (error: unknown) => {
        loading = null
        logger.error({ err: error }, 'webhook.not_loaded')
      },
    )
  }
  const look = (): void => {
    countWebhooks(db).then(
      (count) => (count > 0 ? wake() : undefined),
      (error: unknown) => logger.error({ err: error }, 'webhook.look_failed'),
    )
  }
  lifetimes.add('outbox', async () => {
    isStopped = true
    if (timer !== null) clearInterval(timer)
    await (await loading?.catch(() => null))?.stop()
  })
  core.onListening(() => {
    timer = setInterval(look, timing.pollMs).unref()
  })
  return { rules, outbox: { wake } }
}
