/**
 * Distillation: a small model is trained on what a stronger one says. Teachers themselves are the library's
 * (`plugins/rl-library/teacher.ts`).
 */
import { definePlugin } from '#service/define-plugin.js'

export const teacher = definePlugin({
  name: 'teacher',
  needs: ['rl-library', 'rollout'],
  commands: {
    after: 'train dpo',
    rows: [
      {
        path: 'train distill',
        summary: 'Train a model on what a stronger one says',
        load: async () => (await import('./command.js')).trainDistill,
      },
    ],
  },
})
