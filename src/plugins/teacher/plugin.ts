/**
 * Distillation: a small model is trained on what a stronger one says. Teachers themselves are the library's
 * (`sdk/rl/teacher.ts`).
 */
import { definePlugin } from '#service/define-plugin.js'

export const teacher = definePlugin({
  name: 'teacher',
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
