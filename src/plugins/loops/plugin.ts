/**
 * Loops: training by reinforcement learning that the server goes through step by step, with a grader as its reward.
 */
import { definePlugin } from '#service/define-plugin.js'
import type { PluginStart } from '#service/plugin.js'
import type { webhookSettings } from '../webhooks/settings.js'

export const loops = definePlugin({
  name: 'loops',
  needs: ['webhooks', 'rl-library', 'graders', 'rollout'],
  endpoints: async () => (await import('./endpoints.js')).loopEndpoints,
  start: async (core: PluginStart<typeof webhookSettings>) => (await import('./start.js')).startLoops(core),
  handlers: async (service) => (await import('./handlers.js')).loopHandlers(service),
  tables: async () => (await import('./storage/schema-part.js')).loopSchema,
  processes: ['plugins/loops/process/main.js'],
  commands: {
    after: 'jobs cancel',
    rows: [
      {
        path: 'loops create',
        summary: 'Train by a grader on the server, step by step',
        sendsJobs: true,
        load: async () => (await import('./commands/create.js')).createLoopCommand,
      },
      {
        path: 'loops list',
        summary: 'List loops, newest first',
        load: async () => (await import('./commands/list.js')).listLoopsCommand,
      },
      {
        path: 'loops get',
        summary: 'Show a loop',
        load: async () => (await import('./commands/get.js')).getLoopCommand,
      },
      {
        path: 'loops watch',
        summary: 'Watch a loop to its end',
        load: async () => (await import('./commands/watch.js')).watchLoopCommand,
      },
      {
        path: 'loops pause',
        summary: 'Pause a loop at the next border of phases',
        load: async () => (await import('./commands/act.js')).pauseLoop,
      },
      {
        path: 'loops resume',
        summary: 'Let a paused loop go on',
        load: async () => (await import('./commands/act.js')).resumeLoop,
      },
      {
        path: 'loops cancel',
        summary: 'End a loop and the job of its step',
        load: async () => (await import('./commands/act.js')).cancelLoop,
      },
    ],
  },
})
