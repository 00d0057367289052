/**
 * Environments that somebody else wrote, played, measured and trained in from the command line; the server is used by its
 * API alone.
 */
import { definePlugin } from '#service/define-plugin.js'

export const environments = definePlugin({
  name: 'environments',
  needs: ['rl-library', 'graders', 'rollout'],
  commands: {
    after: 'rollout',
    rows: [
      {
        path: 'env check',
        summary: 'Try an environment without a model',
        load: async () => (await import('./commands/check.js')).checkEnv,
      },
      {
        path: 'env eval',
        summary: 'Measure a model in an environment',
        load: async () => (await import('./commands/play.js')).evalEnv,
      },
      {
        path: 'env rollout',
        summary: 'Play episodes of an environment, to train on',
        load: async () => (await import('./commands/play.js')).rolloutEnv,
      },
      {
        path: 'env train',
        sendsJobs: true,
        summary: 'Train a model in an environment',
        load: async () => (await import('./commands/train.js')).trainEnv,
      },
      {
        path: 'env list',
        summary: 'List the kinds of environments',
        load: async () => (await import('./commands/list.js')).listKinds,
      },
    ],
  },
})
