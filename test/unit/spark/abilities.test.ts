/**
 * The data of `trainyard/spark`: same seed, same rows; nothing held out is trained on; right answers score 1, others less.
 */
import { describe, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { ABILITIES, abilityOf } from '../../spark/abilities/index.js'
import { isHeldOut, say } from '../../spark/abilities/say.js'
import { heldOutRows } from '../../spark/data/conversations.js'
import { isClean } from '../../spark/text/wordnet.js'

const ROWS = 40
const WITH_SIGNS = ['copy', 'forms', 'json-lists']
const WRONG = [
  '',
  'I do not know',
  'Bananas are yellow and 987654 of them sing.',
  '<tool_call>{"name": "sing", "arguments": {}}</tool_call>',
]

describe.each(ABILITIES.map((ability) => [ability.name, ability] as const))('%s', (_name, ability) => {
  const draw = (seed: string, split: 'train' | 'heldOut') => {
    const rng = createRng(seed)
    return Array.from({ length: ROWS }, () => ability.generate(rng, split))
  }
  const heldOut = draw('held-out', 'heldOut')

  test('the same seed gives the same rows, another seed others', () => {
    expect(draw('seed', 'train')).toEqual(draw('seed', 'train'))
    expect(draw('seed', 'train')).not.toEqual(draw('other', 'train'))
  })

  test('no content of a held-out row can be in a training row', () => {
    const trained = new Set(draw('train', 'train').flatMap(({ keys }) => keys))
    expect([...trained].filter(isHeldOut)).toEqual([])
    for (const { keys } of heldOut) expect(keys.some((key) => isHeldOut(key) && !trained.has(key))).toBe(true)
  })

  test('the reference answer scores 1', () => {
    for (const row of [...heldOut, ...draw('train', 'train')]) {
      const reference = row.messages[row.messages.length - 1]!
      expect(ability.score(row, reference), JSON.stringify(row)).toBe(1)
      if (reference.tool_calls === undefined) expect(ability.score(row, reference.content ?? '')).toBe(1)
    }
  })

  test('wrong answers score less, and the right answer of another row does not pass', () => {
    for (const [index, row] of heldOut.entries()) {
      for (const wrong of WRONG) {
        if (row.expect['name'] === null && wrong !== '' && !wrong.includes('<tool_call>')) continue
        const score = ability.score(row, wrong)
        expect(score, `${JSON.stringify(row)} ${wrong}`).toBeGreaterThanOrEqual(0)
        expect(score, `${JSON.stringify(row)} ${wrong}`).toBeLessThan(0.6)
      }
      const other = heldOut
        .slice(index)
        .find(({ expect: wanted }) => JSON.stringify(wanted) !== JSON.stringify(row.expect))
      if (other === undefined || ability.name === 'small-talk' || ability.name === 'story') continue
      if (row.expect['name'] === null) continue
      expect(ability.score(row, other.messages[other.messages.length - 1]!), JSON.stringify([row, other])).toBeLessThan(
        1,
      )
    }
  })

  test('rows are whole: no unfilled place, no double space, nothing unwanted', () => {
    for (const row of [...heldOut, ...draw('text', 'train')]) {
      for (const { content } of row.messages) {
        expect(content).not.toMatch(/undefined|NaN|\[object|<\|im|<\|end/)
        // what is about signs holds those that places and alternatives of sentences are written with
        if (!WITH_SIGNS.includes(ability.name)) expect(content).not.toMatch(/[[\]|]|<\||\{(?!["}])\w+\}/)
        expect(content).not.toMatch(/ {2}|^\s|\s$/)
        expect(isClean((content ?? '').replaceAll('Islamabad', ''))).toBe(true)
      }
    }
  })

  test('no question of the evaluation is asked in training', () => {
    const rng = createRng('questions')
    const questions = new Set(heldOutRows(ability, 60).map(({ messages }) => messages[0]!.content))
    const asked = Array.from({ length: 600 }, () => ability.generate(rng, 'train').messages[0]!.content)
    expect(asked.filter((question) => questions.has(question))).toEqual([])
  })

  test('held-out rows for evaluation do not repeat a question', () => {
    const rows = heldOutRows(ability, 30)
    const questions = rows.map(({ messages }) => JSON.stringify(messages.slice(0, -1).map(({ content }) => content)))
    expect(rows.length).toBe(30)
    expect(new Set(questions).size).toBe(30)
  })
})

describe('scores', () => {
  const one = (name: string, task: string) => {
    const rng = createRng('one')
    const ability = abilityOf(name)
    for (;;) {
      const row = ability.generate(rng, 'heldOut')
      if (row.task === task) return { row, score: (answer: string) => ability.score(row, answer) }
    }
  }

  test('arithmetic: the number alone or in a sentence passes, a wrong number gets a tenth, a list of guesses half at most', () => {
    const { row, score } = one('arithmetic', 'plus')
    const right = Number(row.expect['number'])
    expect(score(`The answer is ${right}.`)).toBe(1)
    expect(score(String(right + 1))).toBe(0.1)
    expect(score(`${right + 1}, ${right}`)).toBe(0.5)
    expect(score(`${right}, ${right + 1}`)).toBe(0)
  })

  test('reverse and spell: the nearer the letters, the higher the score', () => {
    const { row, score } = one('reverse', 'word')
    const text = String(row.expect['text'])
    const near = `${text.slice(0, -1)}q`
    expect(score(near)).toBeLessThan(1)
    expect(score(near)).toBeGreaterThan(score('qqqqqqqq'))
    const spelled = one('spell', 'spell')
    expect(spelled.score(String(spelled.row.expect['text']).replaceAll('-', ' '))).toBe(1)
    expect(spelled.score(String(spelled.row.expect['text']).replaceAll('-', ''))).toBe(0)
  })

  test('only: a word more costs most of the score', () => {
    const { row, score } = one('only', 'capital')
    expect(score(`The capital is ${String(row.expect['answer'])}.`)).toBeLessThan(0.4)
    expect(score(`${String(row.expect['answer'])}`)).toBe(1)
  })

  test('fill-json: text around the object, a missing field and an extra field cost something', () => {
    const { row, score } = one('fill-json', 'person')
    const fields = row.expect['fields'] as Record<string, unknown>
    const [first, ...others] = Object.entries(fields)
    expect(score(`Here: ${JSON.stringify(fields)}`)).toBe(0.8)
    expect(score(JSON.stringify({ ...fields, more: 1 }))).toBeLessThan(0.8)
    expect(score(JSON.stringify(Object.fromEntries(others)))).toBeLessThan(
      score(JSON.stringify({ ...fields, [first![0]]: 'x' })) + 0.5,
    )
    expect(score(JSON.stringify(Object.fromEntries(others)))).toBeLessThan(0.6)
    expect(score('{"name": ')).toBe(0)
  })

  test('tool-call: name, then arguments; no call where none is needed', () => {
    const { row, score } = one('tool-call', 'several')
    const call = (name: string, given: object) =>
      `<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`
    const { name, arguments: given } = row.expect as { name: string; arguments: Record<string, unknown> }
    expect(score(call(name, given))).toBe(1)
    expect(score(call(name, {}))).toBe(0.2)
    expect(score(call('other', given))).toBe(0.1)
    expect(score(`${call(name, given)}${call(name, given)}`)).toBeLessThan(1)
    expect(one('tool-call', 'none').score(call(name, given))).toBe(0)
  })

  test('tool-answer: every fact of the result counts', () => {
    const { row, score } = one('tool-answer', 'get_weather')
    const [degrees, sky] = row.expect['facts'] as [number, string]
    expect(score(`It is ${degrees} degrees.`)).toBe(0.5)
    expect(score(`${sky}, ${degrees} degrees`)).toBe(1)
    expect(score(`${sky}, ${degrees + 1} degrees`)).toBe(0.5)
  })

  test('sentiment and yes-no: naming both labels does not pass', () => {
    expect(one('sentiment', 'two').score('positive or negative')).toBe(0)
    expect(one('yes-no', 'kind').score('Yes and no')).toBe(0)
  })
})

describe('say', () => {
  test('alternatives nest and values go in untouched', () => {
    const rng = createRng('say')
    const texts = new Set(Array.from({ length: 60 }, () => say(rng, 'a[ b[c|d]|] {x}', { x: '[1|2] {y}' })))
    expect(texts).toEqual(new Set(['a bc [1|2] {y}', 'a bd [1|2] {y}', 'a [1|2] {y}']))
  })

  test('a closing bracket without an opening one is an error', () => {
    expect(() => say(createRng(1), 'a] b')).toThrow(/closes a bracket/)
  })
})
