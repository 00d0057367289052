/**
 * Settings of engine nodes.
 */
import { defineSettings } from '#contract/settings/setting.js'

export const nodeSettings = defineSettings({
  /**
   * Where engine nodes of other keys than the operator's may be: names, `name:port`, addresses, networks (`10.1.0.0/16`).
   * Default none.
   */
  engineNodeHosts: {
    key: 'engine-node-hosts',
    type: 'list',
    default: [],
    flag: '--engine-node-host <host>',
    after: 'webhook-hosts',
    summary: 'host or network where engine nodes of tenants may be; the operator’s own may be anywhere',
  },
})
