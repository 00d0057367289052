/**
 * Care of what a service has stored: it is saved as one file, looked through, moved to other places and restored.
 */
import { definePlugin } from '#service/define-plugin.js'

export const backup = definePlugin({
  name: 'backup',
  endpoints: async () => (await import('./endpoints.js')).verifyEndpoints,
  handlers: async (service) => (await import('./handlers.js')).verifyHandlers(service),
  commands: {
    after: 'usage',
    rows: [
      {
        path: 'backup',
        summary: 'Save a data directory as one file, also while it is served',
        load: async () => (await import('./commands/backup.js')).backup,
      },
      {
        path: 'verify',
        summary: 'Look for missing, damaged and unnamed blobs',
        load: async () => (await import('./commands/verify.js')).verify,
      },
      {
        path: 'move',
        summary: 'Move a service to PostgreSQL and a bucket, or back',
        load: async () => (await import('./commands/move.js')).move,
      },
      {
        path: 'restore',
        summary: 'Restore a data directory from a backup',
        load: async () => (await import('./commands/restore.js')).restore,
      },
    ],
  },
})
