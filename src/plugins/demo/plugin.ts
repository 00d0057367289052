/**
 * What a newcomer sees first: a small model that learns something in a minute.
 */
import { definePlugin } from '#service/define-plugin.js'

export const demo = definePlugin({
  name: 'demo',
  commands: {
    after: 'worker',
    rows: [
      {
        path: 'demo',
        summary: 'Teach a small model something in a minute',
        group: 'begin',
        load: async () => (await import('./command.js')).demo,
      },
    ],
  },
})
