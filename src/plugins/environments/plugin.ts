/**
 * Environments that somebody else wrote, played, measured and trained in from the command line; the server is used by its API alone.
 */
import { definePlugin } from '#service/define-plugin.js'

export const environments = definePlugin({
  name: 'environments',
})
