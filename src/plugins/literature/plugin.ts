/**
 * Losses and advantages of the literature beside the core's own, each a function of a few lines with its paper.
 */
import { definePlugin } from '#service/define-plugin.js'

export const literature = definePlugin({
  name: 'literature',
  needs: ['rl-library'],
  losses: async () => [
    ...(await import('./policy.js')).POLICY_LOSSES,
    ...(await import('./preference.js')).PREFERENCE_LOSSES,
    ...(await import('./examples.js')).EXAMPLE_LOSSES,
  ],
  advantages: async () => (await import('./advantages.js')).ADVANTAGES,
})
