/**
 * Every kind of environment, a row each; what it is made of is loaded when one is opened.
 */
import type { SourceKind } from '../source.js'

export const SOURCES: readonly SourceKind[] = [
  {
    scheme: 'reasoning-gym',
    target: '<task>',
    summary: 'tasks of the Python package reasoning-gym, one turn each',
    example: 'reasoning-gym:letter_counting',
    takes: ['settings', 'python', 'install', 'isolate', 'variables'],
    open: async (setup) => (await import('./reasoning-gym.js')).openReasoningGym(setup),
  },
]
