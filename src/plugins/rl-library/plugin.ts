/**
 * Reinforcement learning from TypeScript (`trainyard/rl`): rollouts, environments, sessions and teachers on top of the client.
 */
import { definePlugin } from '#service/define-plugin.js'

export const rlLibrary = definePlugin({ name: 'rl-library' })
