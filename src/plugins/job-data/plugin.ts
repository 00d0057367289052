/**
 * What jobs trained on: rows as they were sent, trajectory groups with tokens, and scores of them under a checkpoint.
 */
import { definePlugin } from '#service/define-plugin.js'

export const jobData = definePlugin({
  name: 'job-data',
  endpoints: async () => (await import('./endpoints.js')).jobDataEndpoints,
  handlers: async (service) => (await import('./handlers.js')).jobDataHandlers(service),
  commands: {
    after: 'jobs watch',
    rows: [
      {
        path: 'jobs data',
        summary: 'Print the rows a job trained on',
        isHidden: true,
        load: async () => (await import('./commands/data.js')).jobData,
      },
      {
        path: 'jobs groups',
        summary: 'List the trajectory groups a job trained on',
        isHidden: true,
        load: async () => (await import('./commands/groups.js')).jobGroups,
      },
      {
        path: 'jobs trajectory',
        summary: 'Show one trajectory a job trained on',
        load: async () => (await import('./commands/trajectory.js')).jobTrajectory,
      },
    ],
  },
})
