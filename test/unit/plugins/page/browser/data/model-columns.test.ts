/** Columns and groups of the list of models. */
import { describe, expect, test } from 'vitest'
import type { ListedModel } from '../../../../../../src/contract/wire/models.js'
import {
  differingOptions,
  groupModels,
  metricsOf,
  optionText,
} from '../../../../../../src/plugins/page/browser/data/model-columns.js'

function model(name: string, more: Partial<NonNullable<ListedModel['summary']>>): ListedModel {
  const summary = {
    checkpoints: 0,
    size_bytes: 0,
    last_active_at: '',
    running_job: null,
    metrics: {},
    warnings: [],
    ...more,
  }
  return {
    id: name,
    entity: 'e',
    project: 'p',
    name,
    base_model: `base of ${name}`,
    run_id: null,
    step: 0,
    created_at: '',
    summary,
  }
}

const reward = { last: 1, last_step: 1, best: 1, best_step: 1, spark: [1] }
const slow = model('slow', { options: { learning_rate: 1e-4, epochs: 2, target: ['q'] }, tags: ['best', 'v2'] })
const quick = model('quick', {
  options: { learning_rate: 1e-3, epochs: 2, target: ['q'] },
  metrics: { 'val/reward': reward },
})
const fresh = model('fresh', { options: null })

describe('columns', () => {
  test('are options that differ among models with a job, and numbers that some model has', () => {
    expect(differingOptions([slow, quick, fresh])).toEqual(['learning_rate'])
    expect(differingOptions([slow, fresh])).toEqual([])
    expect(metricsOf([slow, quick])).toEqual(['val/reward'])
    expect([slow, fresh].map((each) => optionText(each, 'target'))).toEqual(['["q"]', '–'])
  })
})

describe('groups', () => {
  const names = (by: string | null) =>
    groupModels([slow, quick, fresh], by).map(({ name, models }) => [name, models.map((each) => each.name).join()])

  test('are one without a word, else by it; a model of two tags is in both', () => {
    expect(names(null)).toEqual([[null, 'slow,quick,fresh']])
    expect(names('base')).toEqual([
      ['base of fresh', 'fresh'],
      ['base of quick', 'quick'],
      ['base of slow', 'slow'],
    ])
    expect(names('tag')).toEqual([
      ['best', 'slow'],
      ['v2', 'slow'],
      ['without a tag', 'quick,fresh'],
    ])
    expect(names('learning_rate')).toContainEqual(['learning_rate –', 'fresh'])
  })
})
