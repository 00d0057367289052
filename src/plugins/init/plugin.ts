/**
 * The beginning of a task of one's own: files that run as they stand, written from data or an example.
 */
import { definePlugin } from '#service/define-plugin.js'

export const init = definePlugin({
  name: 'init',
  needs: ['rollout'],
  commands: {
    after: 'serve',
    rows: [
      {
        path: 'init',
        summary: 'Begin a task of your own: a folder that runs as it stands',
        group: 'begin',
        load: async () => (await import('./command.js')).init,
      },
    ],
  },
})
