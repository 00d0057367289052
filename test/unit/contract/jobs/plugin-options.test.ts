/**
 * Options of plugins: which manifests are refused, and which plugins a job's record needs.
 */
import { describe, expect, test } from 'vitest'
import { optionOf, pluginsNeeded, problemOfJobOptions } from '#contract/jobs/plugin-options.js'
import { resolveOptions } from '#contract/jobs/resolve.js'

const row = { type: 'number', default: 0, bounds: { min: 0, max: 1 }, summary: 'how brief' }
const rewards = async () => ({ shape: () => [] })
const options = (rows: object) => ({ rl: { rows, rewards } })

describe('options of a plugin', () => {
  test.each<[string, object]>([
    ['a number', row],
    ['a number without a default', { ...row, default: null }],
    ['a switch', { type: 'boolean', default: false, summary: 'whether' }],
    ['a choice', { type: 'choice', choices: ['a', 'b'], default: 'a', summary: 'which' }],
    ['names', { type: 'names', choices: ['a', 'b'], default: null, summary: 'which' }],
    ['a text', { type: 'text', default: null, maxLength: 9, summary: 'what' }],
  ])('may be %s', (_, given) => {
    expect(problemOfJobOptions('brief', options({ how: given }))).toBeNull()
  })

  test.each<[string, object, string]>([
    ['kinds that take none', { sft: {} }, 'options can be added to jobs of kind rl alone'],
    ['kinds that are none', { ppo: {} }, 'no kind of job is called that'],
    ['no rows', options({}), 'jobOptions.rl needs rows'],
    ['no effect', { rl: { rows: { how: row } } }, 'needs a function "rewards"'],
    ['a name of its own form', options({ howBrief: row }), 'option "howBrief" must be of small letters'],
    ['a flag of its own', options({ how: { ...row, flag: {} } }), 'option "how" has an unknown member "flag"'],
    [
      'an unknown type',
      options({ how: { ...row, type: 'object' } }),
      'option "how" has type "object", expected one of',
    ],
    ['no sentence', options({ how: { ...row, summary: undefined } }), 'option "how" needs a summary'],
    ['no default', options({ how: { ...row, default: undefined } }), 'option "how" needs a default'],
    [
      'a default outside its bounds',
      options({ how: { ...row, default: 2 } }),
      'option "how" has bounds, choices or a default that',
    ],
    [
      'a default of another type',
      options({ how: { ...row, default: '0.5' } }),
      'option "how" has bounds, choices or a default that',
    ],
    ['no bounds', options({ how: { type: 'number', default: 0, summary: 'how' } }), 'option "how" needs bounds'],
  ])('with %s are refused', (_, given, problem) => {
    expect(problemOfJobOptions('brief', given)).toContain(problem)
  })

  test('cannot stand under a name that jobs have', () => {
    expect(problemOfJobOptions('lora', options({ how: row }))).toContain('jobs have an option "lora" already')
  })

  test('are needed by the jobs that have set one', () => {
    const record = resolveOptions('rl', { lora: { rank: 2 } })
    expect(pluginsNeeded('rl', record)).toEqual([])
    expect(pluginsNeeded('rl', { ...record, [optionOf('my-rewards')]: { how: 1 }, brief: null })).toEqual([
      'my-rewards',
    ])
    expect(pluginsNeeded('rl', null)).toEqual([])
  })
})
