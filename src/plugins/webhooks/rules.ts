/**
 * Which addresses webhooks may be at.
 */
import { type AddressRules, createAddressRules, type NameService } from '#service/operations/address-rules.js'

/** @param allowedHosts see `createAddressRules` */
export function createWebhookRules(allowedHosts: readonly string[], lookUp?: NameService): AddressRules {
  const refusal = { code: 'webhook_refused', param: 'url', subject: 'url', flag: '--webhook-host' }
  return createAddressRules(allowedHosts, refusal, lookUp)
}
