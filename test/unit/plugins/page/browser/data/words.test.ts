/** Words of readers for identifiers of the API. */
import { expect, test } from 'vitest'
import { lowerWordsOf, metricWords, wordsOf } from '../../../../../../src/plugins/page/browser/data/words.js'

test.each([
  ['train/reward', 'Reward'],
  ['held_out/reward', 'Reward, held out'],
  ['val/reward', 'Reward, validation'],
  ['val/data/step_num_trajectories', 'Trajectories, validation'],
  ['loss/train', 'Loss'],
  ['loss/val', 'Loss, validation'],
  ['train/is_right', 'Is right'],
  ['train/reward_std_dev', 'Reward, spread'],
  ['kl_div', 'KL, sampler to learner'],
  ['of/mine/so_far', 'So far, of, mine'],
])('the metric %s is called %s', (key, words) => expect(metricWords(key)).toBe(words))

test('a name that nobody knows is spelled as words; an abbreviation keeps its letters in a sentence', () => {
  expect(wordsOf('gradient_step')).toBe('Gradient step')
  expect(lowerWordsOf('equal_rewards')).toBe('equal rewards')
  expect(lowerWordsOf('kl_div')).toBe('KL, sampler to learner')
  expect(wordsOf('cpu_queue')).not.toMatch(/_|queue/)
})
