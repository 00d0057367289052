/**
 * From logits to tokens, seen from outside: order of the logits processors, samplers, seeds, ends of answers and what log-probabilities
 * say. A grammar of twelve letters makes every score visible: its log-probabilities are the logits of the letters but for a constant.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import { chatAnswers } from '../../../support/service/chat-answers.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
})
afterAll(() => service.dispose())

const LETTERS = [...'abcdefghijkl']
const idOf = (letter: string): number => letter.charCodeAt(0)
const { plain, both } = chatAnswers(() => service, {
  messages: [{ role: 'user', content: 'fade' }],
  seed: 5,
  max_tokens: 12,
  return_token_ids: true,
})
const letters = (count: number) => ({ structured_outputs: { regex: `[a-l]{${count}}` } })
const textOf = (body: ChatResponse, choice = 0): string => body.choices[choice]?.message.content ?? ''
const idsOf = (body: ChatResponse, choice = 0): number[] => body.choices[choice]?.token_ids ?? []

type Scores = Map<string, number>

/** What the letters have at each position. */
function scoresOf(body: ChatResponse, choice = 0): Scores[] {
  return (body.choices[choice]?.logprobs?.content ?? []).map(
    ({ top_logprobs: top }) =>
      new Map(top.filter(({ token }) => LETTERS.includes(token)).map(({ token, logprob }) => [token, logprob])),
  )
}

const best = (scores: Scores): string => [...scores].sort(([, a], [, b]) => b - a)[0]?.[0] ?? ''

/** Probabilities by the definition, step by step. */
function probabilities(
  scores: Scores,
  rules: { temperature?: number; min_p?: number; top_k?: number; top_p?: number },
) {
  const { temperature = 1, min_p: minP = 0, top_k: topK = 0, top_p: topP = 1 } = rules
  let left = [...scores].map(([token, logprob]) => ({ token, weight: Math.exp(logprob / temperature) }))
  left.sort((a, b) => b.weight - a.weight)
  left = left.filter(({ weight }) => weight >= minP * (left[0]?.weight ?? 0))
  if (topK > 0) left = left.slice(0, topK)
  const total = left.reduce((sum, { weight }) => sum + weight, 0)
  let above = 0
  left = left.filter(({ weight }, rank) => {
    const isKept = rank === 0 || above < topP * total
    above += weight
    return isKept
  })
  const sum = left.reduce((part, { weight }) => part + weight, 0)
  return new Map(left.map(({ token, weight }) => [token, weight / sum]))
}

describe('logits processors (2.1)', () => {
  const greedy = { temperature: 0, logprobs: true, top_logprobs: 20 }

  it('are applied to greedy answers, and log-probabilities are those before them', async () => {
    const body = await both({ ...greedy, ...letters(12) })
    for (const [i, scores] of scoresOf(body).slice(0, 12).entries()) {
      expect(scores.size).toBe(12)
      expect(textOf(body)[i]).toBe(best(scores))
      // normalised over what the grammar allows
      expect([...scores.values()].reduce((sum, logprob) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 4)
    }
  })

  it.each<[string, object, (token: string, written: string) => number]>([
    ['allowed_token_ids', { allowed_token_ids: [98, 101, 104] }, (token) => ('beh'.includes(token) ? 0 : -Infinity)],
    ['logit_bias', { logit_bias: { 99: 0.2, 100: -3, 101: 0.1 } }, (token) => ({ c: 0.2, d: -3, e: 0.1 })[token] ?? 0],
    ['logit_bias, clamped', { logit_bias: { 99: 500, 100: 100 } }, (token) => ('cd'.includes(token) ? 100 : 0)],
    [
      'frequency_penalty: of the output, by count',
      { frequency_penalty: 0.7 },
      (token, written) => -0.7 * (written.split(token).length - 1),
    ],
    [
      'presence_penalty: of the output, once',
      { presence_penalty: 0.7 },
      (token, written) => (written.includes(token) ? -0.7 : 0),
    ],
    [
      'penalties below zero, with a bias',
      { presence_penalty: -2, frequency_penalty: 2, logit_bias: { 97: 0.5 } },
      (token, written) =>
        (written.includes(token) ? 2 : 0) - 2 * (written.split(token).length - 1) + (token === 'a' ? 0.5 : 0),
    ],
    [
      'bad_words: the last token, where the others have just been written',
      { bad_words: ['a', 'bc', 'cb'], allowed_token_ids: [97, 98, 99] },
      (token, written) =>
        token === 'a' || !'abc'.includes(token) || ['bc', 'cb'].includes(`${written.at(-1)}${token}`) ? -Infinity : 0,
    ],
  ])('%s', async (_, rules, change) => {
    const body = await both({ ...greedy, ...letters(12), ...rules })
    const text = textOf(body)
    for (const [i, scores] of scoresOf(body).slice(0, 12).entries()) {
      const changed = new Map([...scores].map(([token, score]) => [token, score + change(token, text.slice(0, i))]))
      const [first, second] = [...changed.values()].sort((a, b) => b - a)
      // ties are anyone's
      if ((first ?? 0) - (second ?? 0) > 1e-4) expect([i, text[i]]).toEqual([i, best(changed)])
      expect(changed.get(text[i] ?? '')).toBeGreaterThan(-Infinity)
    }
    const entries = body.choices[0]?.logprobs?.content ?? []
    const unchanged = await plain({ ...greedy, ...letters(12) })
    // the same context: the same raw values, whatever was chosen
    expect(Math.abs((scoresOf(unchanged)[0]?.get(text[0] ?? '') ?? 0) - (entries[0]?.logprob ?? 0))).toBeLessThan(1e-5)
  })

  it('repetition_penalty counts the prompt, divides what is above zero and multiplies what is below', async () => {
    const one = { ...greedy, ...letters(1) }
    const scores = scoresOf(await plain(one))[0] ?? new Map<string, number>()
    const chosen = new Map<number, string>()
    for (const penalty of [1 / 64, 1 / 8, 1 / 2, 1, 2, 8, 64]) {
      chosen.set(penalty, textOf(await both({ ...one, repetition_penalty: penalty })))
    }
    expect(new Set(chosen.values()).size).toBeGreaterThan(1)
    // the logits are the scores but for one constant, which has to explain every choice
    const penalised = (logit: number, penalty: number): number => (logit > 0 ? logit / penalty : logit * penalty)
    const explains = (constant: number): boolean =>
      [...chosen].every(([penalty, letter]) => {
        const changed = [...scores].map(([token, score]): [string, number] => {
          const logit = score + constant
          return [token, 'fade'.includes(token) ? penalised(logit, penalty) : logit]
        })
        const most = Math.max(...changed.map(([, logit]) => logit))
        return (new Map(changed).get(letter) ?? -Infinity) > most - 1e-3
      })
    const constants = Array.from({ length: 4001 }, (_, i) => (i - 2000) / 100)
    expect(constants.some(explains)).toBe(true)
  })

  it('min_tokens forbids the end of the text and stop tokens until then', async () => {
    for (const min of [0, 3, 7]) {
      const body = await both({
        ...greedy,
        structured_outputs: { regex: '[a-l]*' },
        min_tokens: min,
        stop_token_ids: LETTERS.slice(0, 11).map(idOf),
      })
      const ids = idsOf(body)
      expect(ids.slice(0, min)).toEqual(Array(min).fill(idOf('l')))
      if (ids.length < 12) expect(body.choices[0]?.finish_reason).toBe('stop')
    }
  })

  it.each<[string, object]>([
    ['min_tokens and a grammar that is over', { ...letters(1), min_tokens: 3 }],
    ['allowed and forbidden alike', { allowed_token_ids: [97], bad_words: ['a'] }],
    ['only what min_tokens forbids', { allowed_token_ids: [97], stop_token_ids: [97], min_tokens: 2 }],
  ])('%s: what leaves no token is said so', async (_, rules) => {
    for (const sampler of [{ temperature: 0 }, {}, { top_p: 0.9 }, { top_k: 3, min_p: 0.1 }]) {
      const { status, body } = await service.json<{ error: { message: string } }>('/v1/chat/completions', {
        json: { messages: [{ role: 'user', content: 'fade' }], max_tokens: 12, ...sampler, ...rules },
      })
      expect([status, body.error?.message]).toEqual([400, expect.stringContaining('forbid every next token')])
    }
  })

  it('temperature changes no log-probability', async () => {
    const cold = await plain({ ...greedy, ...letters(1) })
    const hot = await plain({ ...greedy, ...letters(1), temperature: 1.7 })
    for (const [token, logprob] of scoresOf(cold)[0] ?? []) {
      expect(Math.abs((scoresOf(hot)[0]?.get(token) ?? 0) - logprob)).toBeLessThan(1e-5)
    }
  })
})

describe('samplers (2.1)', () => {
  const DRAWS = 600
  it.each<[string, { temperature?: number; min_p?: number; top_k?: number; top_p?: number }]>([
    ['none', {}],
    ['temperature', { temperature: 0.3 }],
    ['min_p', { min_p: 0.6 }],
    ['top_k', { top_k: 3 }],
    ['top_k beyond the vocabulary', { top_k: 100_000 }],
    ['top_p', { top_p: 0.5 }],
    ['top_p of almost nothing', { top_p: 1e-6 }],
    ['temperature before min_p', { temperature: 3, min_p: 0.75 }],
    ['top_k before top_p', { temperature: 0.7, top_k: 5, top_p: 0.6 }],
    ['all of them', { temperature: 1.5, min_p: 0.3, top_k: 7, top_p: 0.9 }],
  ])('%s: only what is left is drawn, as often as it should be', async (_, rules) => {
    const counts = new Map<string, number>()
    let expected = new Map<string, number>()
    for (let seed = 0; seed < DRAWS; seed += 60) {
      const body = await plain({
        ...letters(1),
        max_tokens: 1,
        ...rules,
        n: 60,
        seed,
        logprobs: true,
        top_logprobs: 20,
      })
      expected = probabilities(scoresOf(body)[0] ?? new Map(), rules)
      for (const { message } of body.choices) {
        counts.set(message.content ?? '', (counts.get(message.content ?? '') ?? 0) + 1)
      }
    }
    for (const token of counts.keys()) expect([...expected.keys()]).toContain(token)
    for (const [token, probability] of expected) {
      const sigma = Math.sqrt(DRAWS * probability * (1 - probability))
      const far = Math.abs((counts.get(token) ?? 0) - DRAWS * probability)
      expect(far, `${token} ${probability} ${counts.get(token)}`).toBeLessThan(5 * sigma + 1)
    }
  })

  it('a temperature below 1e-5 is greedy, whatever else is asked', async () => {
    const greedy = textOf(await plain({ temperature: 0, ...letters(12) }))
    const strange = { temperature: 1e-6, top_k: 2, top_p: 0.1, min_p: 1 }
    expect(textOf(await both({ ...strange, ...letters(12) }))).toBe(greedy)
  })
})

describe('seeds (2.2)', () => {
  const wild = { ...letters(10), temperature: 2 }
  it('of one request give one text, also beside others; other seeds give others', async () => {
    const alone = textOf(await both({ ...wild, seed: 11 }))
    const crowd = await Promise.all([11, 12, 13, 11].map((seed) => plain({ ...wild, seed })))
    expect([textOf(crowd[0] as ChatResponse), textOf(crowd[3] as ChatResponse)]).toEqual([alone, alone])
    expect(new Set(crowd.map((body) => textOf(body))).size).toBe(3)
  })

  it('of choice i are seed + i', async () => {
    const several = await both({ ...wild, seed: 40, n: 3 })
    for (const i of [0, 1, 2]) expect(textOf(several, i)).toBe(textOf(await plain({ ...wild, seed: 40 + i })))
  })

  it('that are not given differ', async () => {
    const texts = await Promise.all([1, 2, 3].map(async () => textOf(await plain({ ...wild, seed: null }))))
    expect(new Set(texts).size).toBe(3)
  })
})

describe('ends of answers (2.3)', () => {
  const spelled = (text: string) => ({ structured_outputs: { choice: [text] } })
  const word = spelled('abcdef')
  it.each<[string, object, { text: string; ids: number; reason: string; stop: unknown }]>([
    ['the end of the text', word, { text: 'abcdef', ids: 7, reason: 'stop', stop: null }],
    ['a stop token', { ...word, stop_token_ids: [99, 101] }, { text: 'ab', ids: 3, reason: 'stop', stop: 99 }],
    [
      'a stop token, shown',
      { ...word, stop_token_ids: [99], include_stop_str_in_output: true },
      { text: 'abc', ids: 3, reason: 'stop', stop: 99 },
    ],
    ['the budget', { ...word, max_tokens: 4 }, { text: 'abcd', ids: 4, reason: 'length', stop: null }],
    [
      'max_completion_tokens goes first',
      { ...word, max_tokens: 2, max_completion_tokens: 4 },
      { text: 'abcd', ids: 4, reason: 'length', stop: null },
    ],
    [
      'a stop token on the last token of the budget',
      { ...word, max_tokens: 3, stop_token_ids: [99] },
      { text: 'ab', ids: 3, reason: 'stop', stop: 99 },
    ],
    ['a stop string', { ...word, stop: 'cd' }, { text: 'ab', ids: 4, reason: 'stop', stop: 'cd' }],
    [
      'a stop string, shown',
      { ...word, stop: ['cd'], include_stop_str_in_output: true },
      { text: 'abcd', ids: 4, reason: 'stop', stop: 'cd' },
    ],
    [
      'a stop string on the last token of the budget',
      { ...word, max_tokens: 4, stop: ['cd'] },
      { text: 'ab', ids: 4, reason: 'stop', stop: 'cd' },
    ],
    [
      'the first stop string of the list, when one token ends several',
      { ...word, stop: ['d', 'bcd'] },
      { text: 'abc', ids: 4, reason: 'stop', stop: 'd' },
    ],
    [
      'a stop string that only begins is shown after all',
      { ...word, stop: ['cdx', 'efg'] },
      { text: 'abcdef', ids: 7, reason: 'stop', stop: null },
    ],
    [
      'no stop string below min_tokens',
      { ...word, stop: ['b', 'd'], min_tokens: 3 },
      { text: 'abc', ids: 4, reason: 'stop', stop: 'd' },
    ],
    [
      'a stop token goes before a stop string',
      { ...word, stop: ['c'], stop_token_ids: [99] },
      { text: 'ab', ids: 3, reason: 'stop', stop: 99 },
    ],
    [
      'no end of the text where it is ignored, stop strings still',
      { structured_outputs: { regex: 'a*b' }, ignore_eos: true, stop: ['b'] },
      { text: '', ids: 0, reason: 'stop', stop: 'b' },
    ],
    [
      'a pattern that repeats',
      { ...spelled('kababab'), repetition_detection: { max_pattern_size: 2, min_pattern_size: 2, min_count: 3 } },
      { text: 'kababab', ids: 7, reason: 'repetition', stop: 'repetition_detected' },
    ],
    [
      'no pattern shorter than the shortest',
      { ...spelled('aaaab'), repetition_detection: { max_pattern_size: 3, min_pattern_size: 3, min_count: 2 } },
      { text: 'aaaab', ids: 6, reason: 'stop', stop: null },
    ],
    [
      'no repetition below min_tokens',
      {
        ...spelled('aaaab'),
        min_tokens: 5,
        repetition_detection: { max_pattern_size: 1, min_pattern_size: 1, min_count: 2 },
      },
      { text: 'aaaab', ids: 6, reason: 'stop', stop: null },
    ],
    [
      'the budget goes before a repetition',
      {
        ...spelled('aaaab'),
        max_tokens: 2,
        repetition_detection: { max_pattern_size: 1, min_pattern_size: 1, min_count: 2 },
      },
      { text: 'aa', ids: 2, reason: 'length', stop: null },
    ],
  ])('%s', async (name, rules, { text, ids, reason, stop }) => {
    const body = await both({ temperature: 0, logprobs: true, ...rules })
    const [choice] = body.choices
    expect([choice?.finish_reason, choice?.stop_reason]).toEqual([reason, stop])
    if (!name.startsWith('no end')) {
      expect(choice?.message.content).toBe(text)
      expect(idsOf(body)).toHaveLength(ids)
    }
    // the ids keep what the text lost
    expect(body.usage.completion_tokens).toBe(idsOf(body).length)
    expect(choice?.logprobs?.content).toHaveLength(idsOf(body).length)
  })
})

describe('entries of log-probabilities (2.5)', () => {
  const spelled = { structured_outputs: { choice: ['é日a'] }, temperature: 0, logprobs: true, top_logprobs: 3 }

  it('pieces of a character have no text, the last one has it whole; texts join to the answer', async () => {
    const entries = (await both(spelled)).choices[0]?.logprobs?.content ?? []
    expect(entries.map(({ token }) => token)).toEqual(['', 'é', '', '', '日', 'a', expect.any(String)])
    expect(Buffer.from(entries.slice(0, 6).flatMap(({ bytes }) => bytes ?? [])).toString()).toBe('é日a')
  })

  it('put the sampled token first, then the others by rank; nothing is minus infinity', async () => {
    const body = await both({ ...letters(8), temperature: 3, logprobs: true, top_logprobs: 5 })
    for (const entry of (body.choices[0]?.logprobs?.content ?? []).slice(0, 8)) {
      expect(entry.top_logprobs).toHaveLength(5)
      expect(entry.top_logprobs[0]).toMatchObject({ token: entry.token, logprob: entry.logprob })
      const others = entry.top_logprobs.slice(1).map(({ logprob }) => logprob)
      expect(others).toEqual([...others].sort((a, b) => b - a))
    }
    const forced = await both({ ...spelled, top_logprobs: 20 })
    const all = (forced.choices[0]?.logprobs?.content ?? []).flatMap(({ top_logprobs: top }) => top)
    expect(Math.min(...all.map(({ logprob }) => logprob))).toBe(-9999)
  })

  it('logprobs alone have an empty list at each position, none without', async () => {
    const alone = await both({ ...letters(2), logprobs: true })
    expect((alone.choices[0]?.logprobs?.content ?? []).map(({ top_logprobs: top }) => top)).toEqual([[], [], []])
    expect((await both(letters(2))).choices[0]?.logprobs).toBeNull()
  })

  it('as ids: id list, token texts and usage have one length, bytes stay the text’s', async () => {
    const body = await both({ ...spelled, return_tokens_as_token_ids: true })
    const entries = body.choices[0]?.logprobs?.content ?? []
    expect(entries.map(({ token }) => token)).toEqual(idsOf(body).map((id) => `token_id:${id}`))
    expect(entries).toHaveLength(body.usage.completion_tokens)
    expect(Buffer.from(entries.slice(0, 6).flatMap(({ bytes }) => bytes ?? [])).toString()).toBe('é日a')
    for (const { top_logprobs: top } of entries) {
      // the model's tokens are bytes
      for (const { token, bytes } of top) {
        const id = Number(token.slice('token_id:'.length))
        if (id < 256) expect(bytes).toEqual([id])
      }
    }
  })
})
