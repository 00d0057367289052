/**
 * Settings of webhooks.
 */
import { defineSettings } from '#contract/settings/setting.js'

export const webhookSettings = defineSettings({
  /**
   * Hosts (`name` or `name:port`) that webhooks may be sent to although they are in a private network or speak plain http.
   * Default none.
   */
  webhookHosts: {
    key: 'webhook-hosts',
    type: 'list',
    default: [],
    flag: '--webhook-host <host>',
    after: 'tool-formats',
    summary: 'host webhooks may be sent to although it is private or plain http',
  },
})
