/** Rows of a followed job: columns by kind, what a narrow terminal leaves out, numbers that do not run into each other. */
import { expect, test } from 'vitest'
import { createStepTable } from '#cli/live/step-table.js'

const progress = { count: 4, total: 24, elapsedMs: 5000 }

test('a job with validation rows shows their loss where it was measured', () => {
  const table = createStepTable({ num_sequences: 24, num_validation_trajectories: 6 }, null)
  expect(table.header).toBe('  step     loss       grad norm   entropy   val loss  tokens/s   time')
  const step = { loss: 0.5, grad_norm: 2, entropy: 0.1, tokens_per_second: 1234.5 }
  expect(table.row({ ...step, 'val/loss': 0.25 }, progress)).toBe(
    '  4/24     0.5        2           0.1       0.25      1,235      0:05',
  )
  expect(table.row(step, progress)).toBe('  4/24     0.5        2           0.1       -         1,235      0:05')
})

test('a job on preferences shows margin and accuracy, also when it is followed from the middle', () => {
  const step = { num_pairs: 8, loss: 0.6, grad_norm: 2, 'rewards/margins': 0.125, 'rewards/accuracies': 1 }
  const table = createStepTable(step, null)
  expect(table.header).toBe('  step     loss       grad norm   margin    accuracy  tokens/s   time')
  expect(table.row(step, { ...progress, total: null })).toBe(
    '  4        0.6        2           0.125     1         -          0:05',
  )
})

test('a narrow terminal keeps what the kind measures', () => {
  const started = { num_sequences: 24, num_pairs: 8, num_validation_pairs: 2 }
  expect(createStepTable(started, 60).header).toBe('  step     loss       margin    accuracy  val loss  time')
  expect(createStepTable({ num_sequences: 24 }, 80).header).toContain('tokens/s')
})

test('counts of long jobs keep their distance', () => {
  const table = createStepTable({ num_sequences: 15_000 }, null)
  expect(table.row({ loss: 0.5 }, { ...progress, count: 12_345, total: 15_000 })).toMatch(/^ {2}12345\/15000 {2}0\.5 /)
})
