/** Options that do nothing because their main option is off. */
import { expect, test } from 'vitest'
import { idleOptionsOf } from '#contract/wire/inference/idle-options.js'

test.each([
  [{ length_penalty: 2 }, ['length_penalty']],
  [{ length_penalty: 2, use_beam_search: true }, []],
  [{ length_penalty: 1, use_beam_search: null }, []],
  [{ repetition_detection: { min_count: 3 } }, ['repetition_detection.min_count']],
  [{ repetition_detection: { max_pattern_size: 4, min_count: 3 } }, []],
  [{ repetition_detection: { min_count: 3 }, max_repetition_pattern_size: 4 }, []],
  [{ repetition_detection: null, repetition_min_count: 3 }, ['repetition_min_count']],
  [{ dry_base: 2, dry_allowed_length: 3 }, ['dry_base', 'dry_allowed_length']],
  [{ dry_base: 2, dry_multiplier: 0.8 }, []],
  // as SillyTavern and llama.cpp's own page send them
  [{ dry_multiplier: 0, dry_base: 1.75, dry_allowed_length: 2, dry_penalty_last_n: -1, xtc_threshold: 0.1 }, []],
  [{ dry_sequence_breakers: ['\n', ':', '"', '*'], xtc_probability: 0 }, []],
  [{ dry_sequence_breakers: ['.'] }, ['dry_sequence_breakers']],
  [{ xtc_threshold: 0.2 }, ['xtc_threshold']],
  [{ engine_xargs: { dry_base: '2' } }, ['engine_xargs.dry_base']],
  [{ vllm_xargs: { dry_multiplier: 0.8 }, dry_base: 2 }, []],
  [{ dry_multiplier: 0, vllm_xargs: { dry_multiplier: 0.8, dry_base: 2 } }, ['vllm_xargs.dry_base']],
  [{}, []],
])('%j', (request, names) => {
  expect(idleOptionsOf(request)).toEqual(names)
})
