/**
 * Answers of a model, sampled and given rewards: to train on, to measure and compare models, and to find a rate to train by.
 */
import { definePlugin } from '#service/define-plugin.js'

export const rollout = definePlugin({
  name: 'rollout',
  needs: ['rl-library', 'graders'],
  commandParts: [{ of: 'train rl', load: async () => (await import('./train/train-rl.js')).trainByRewards }],
  commands: {
    after: 'chat',
    rows: [
      {
        path: 'compare',
        summary: 'Compare two models at the same prompts',
        load: async () => (await import('./commands/compare.js')).compare,
      },
      {
        path: 'rollout',
        summary: 'Sample groups of answers with rewards, to train on',
        load: async () => (await import('./commands/rollout.js')).rollout,
      },
      {
        path: 'eval',
        summary: 'Measure a model on held-out prompts',
        group: 'use',
        load: async () => (await import('./commands/eval.js')).evaluate,
      },
      {
        path: 'tune',
        summary: 'Find the learning rate of rewards by short jobs',
        load: async () => (await import('./commands/tune.js')).tune,
      },
    ],
  },
})
