/** Requests of rollouts: what truncates is bounded, so that the sets are recorded. And the temperature that one means. */
import { expect, test } from 'vitest'
import { appliedTemperature, withRecordedSets } from '#base/sampling-record.js'

test('truncation that may leave any number of tokens leaves at most 512', () => {
  for (const open of [
    { top_p: 0.9 },
    { min_p: 0.1 },
    { top_p: '0.9' },
    { top_p: 0.9, top_k: -1 },
    { min_p: 0.1, top_k: 0 },
  ]) {
    expect(withRecordedSets(open)).toEqual({ ...open, top_k: 512 })
  }
})

test('anything else stays as it is', () => {
  for (const request of [{}, { top_p: 1 }, { min_p: 0 }, { top_p: null }, { top_k: 600 }, { top_p: 0.9, top_k: 20 }]) {
    expect(withRecordedSets(request)).toBe(request)
  }
})

test('a tiny temperature is greedy, a small one is raised', () => {
  expect([0, 1e-8, 9.9e-6, 1e-5, 0.001, 0.01, 0.5, 2].map(appliedTemperature)).toEqual([
    0, 0, 0, 0.01, 0.01, 0.01, 0.5, 2,
  ])
})
