/**
 * What is typed into the fields of options, as a request has it.
 */
import { describe, expect, test } from 'vitest'
import type { KindOptions, TrainingOption } from '#contract/wire/training/option-list.js'
import {
  optionsNamedIn,
  spreadObjects,
  toConfig,
  toTyped,
  typedOptions,
} from '../../../../../../../src/plugins/page/browser/data/train/options.js'

const option = (name: string, more: Partial<TrainingOption>): TrainingOption => ({
  name,
  type: 'number',
  summary: '',
  default: null,
  suggested: null,
  suggested_by: null,
  otherwise: null,
  bounds: null,
  choices: null,
  word: null,
  takes_list: false,
  is_common: false,
  needs: null,
  options: null,
  ...more,
})
const known: KindOptions = {
  kind: 'sft',
  root: 'config',
  row: 'example',
  options: [
    option('rate', { suggested: 0.1, takes_list: true }),
    option('batch', { type: 'integer', word: 'auto' }),
    option('shuffle', { type: 'boolean' }),
    option('kwargs', { type: 'fields' }),
    option('lora', { type: 'object', options: [option('rank', { type: 'integer' })] }),
  ],
}

describe('options of a job', () => {
  test('suggestions are sent where nothing was typed, and nothing else is', () => {
    expect(toConfig(known, {})).toEqual({ rate: 0.1 })
    expect(toConfig(known, { rate: '2e-4' })).toEqual({ rate: 2e-4 })
  })

  test('texts become values of their types; what cannot be read goes as it is', () => {
    const typed = { rate: '[1, 2]', batch: 'auto', shuffle: 'false', kwargs: '{"a":1}', 'lora.rank': '4' }
    expect(toConfig(known, typed)).toEqual({
      rate: [1, 2],
      batch: 'auto',
      shuffle: false,
      kwargs: { a: 1 },
      lora: { rank: 4 },
    })
    expect(toConfig(known, { rate: 'fast', kwargs: '{' })).toEqual({ rate: 'fast', kwargs: '{' })
  })

  test("a job's options become an address, and the address the same options again", () => {
    const config = { rate: 0.5, batch: 2, shuffle: true, lora: { rank: 4 }, nothing: null }
    const query = new URLSearchParams(toTyped(config).map(([name, text]): [string, string] => [name, text]))
    expect(toConfig(known, typedOptions(query))).toEqual({ rate: 0.5, batch: 2, shuffle: true, lora: { rank: 4 } })
  })

  test('what no option is called goes as it is, for the server to say so', () => {
    const typed = { rates: '1', 'lora.width': '2', 'kwargs.a': 'x' }
    expect(toConfig(known, typed)).toEqual({ rate: 0.1, rates: '1', 'lora.width': '2', 'kwargs.a': 'x' })
    expect(toConfig(known, { rate: '1', lora: '[' })).toEqual({ rate: 1, lora: '[' })
  })

  test('an object of the caller goes as a whole, whatever it is called; one of options under their names', () => {
    const config = { kwargs: { thinking: true, level: '2' }, lora: { rank: 4 } }
    const query = new URLSearchParams(toTyped(config).map(([name, text]): [string, string] => [name, text]))
    expect(toConfig(known, { rate: '1', ...typedOptions(query) })).toEqual({ rate: 1, ...config })
    expect(spreadObjects(known, typedOptions(query))).toEqual({
      kwargs: '{"thinking":true,"level":"2"}',
      'lora.rank': '4',
    })
    // what was typed since counts
    expect(spreadObjects(known, { lora: '{"rank":4}', 'lora.rank': '8' })).toEqual({ 'lora.rank': '8' })
  })

  test('a sentence names an option as a whole word only', () => {
    expect(optionsNamedIn('a rate of 1 hardly moves (config.rate)', known)).toEqual(['rate'])
    expect(optionsNamedIn('rates differ by batches', known)).toEqual([])
  })
})
