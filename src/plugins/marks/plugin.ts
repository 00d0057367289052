/**
 * Marks: what readers think of answers, and training files made of that.
 */
import { definePlugin } from '#service/define-plugin.js'

export const marks = definePlugin({
  name: 'marks',
  needs: ['job-data'],
  endpoints: async () => (await import('./endpoints.js')).markEndpoints,
  handlers: async (service) => (await import('./handlers.js')).markHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).markSchema,
  commands: {
    after: 'models delete',
    rows: [
      {
        path: 'marks list',
        summary: 'List marks on answers of a model',
        load: async () => (await import('./commands/list.js')).listMarks,
      },
      {
        path: 'marks add',
        summary: 'Mark an answer as good or bad',
        load: async () => (await import('./commands/add.js')).addMark,
      },
      {
        path: 'marks delete',
        summary: 'Delete marks',
        load: async () => (await import('./commands/delete.js')).deleteMarks,
      },
      {
        path: 'marks export',
        summary: 'Make training rows of marks',
        load: async () => (await import('./commands/export.js')).exportMarks,
      },
    ],
  },
})
