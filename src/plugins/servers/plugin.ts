/**
 * Several servers on one database and one blob store, beside each other.
 */
import { definePlugin } from '#service/define-plugin.js'

export const servers = definePlugin({
  name: 'servers',
  peers: async (options) => (await import('./server-group.js')).joinServers(options),
})
