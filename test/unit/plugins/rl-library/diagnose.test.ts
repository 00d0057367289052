/** What a run of on-policy distillation says of itself, by divergences of runs on the built-in model (JSON with keys of one's own). */
import { expect, test } from 'vitest'
import { sayOfDistillation } from '#plugins/rl-library/diagnose.js'

const UNTRAINED = [4.634, 5.129, 5.2, 5.028, 5.395, 5.505, 5.753, 5.444, 5.24, 5.301, 4.918, 4.965]
const AFTER_EXAMPLES = [0.213, 0.108, 0.112, 0.05, 0.051, 0.044, 0.012, 0.028, 0.003, -0.002, 0.044, 0.003]

test('a student that knows nothing of the teacher’s answers is told to begin with examples', () => {
  expect(sayOfDistillation(UNTRAINED)).toEqual([
    "no nearer to the teacher after 12 updates (from 5.0 to 5.1 nats a token): what the model never says cannot be corrected; show it the teacher's answers first (train distill without --on-policy, or train sft), then go on with its own",
  ])
})

test.each([
  ['that comes nearer', AFTER_EXAMPLES],
  ['that is near already', AFTER_EXAMPLES.slice(6)],
  ['after too few updates', UNTRAINED.slice(0, 5)],
  ['without any', []],
])('one %s is told nothing', (_, divergences) => {
  expect(sayOfDistillation(divergences)).toEqual([])
})
