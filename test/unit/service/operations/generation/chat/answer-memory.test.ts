/** Answers with their tokens: found by what their message says, by their owner, within a bound. */
import { expect, test } from 'vitest'
import { callIdOf } from '#formats/answers/call-id.js'
import { AnswerMemory } from '#service/operations/generation/chat/answer-memory.js'

const turnOf = (id: number, count = 1) => ({
  prompt: { length: id, digest: String(id) },
  tokenIds: Array.from({ length: count }, () => id),
})
const said = (content: string) => ({ role: 'assistant', content })
const calling = (given: unknown, id = callIdOf('1')) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: given } }],
})

test('an answer is found by what it says: parts, white space and the spelling of arguments do not matter', () => {
  const memory = new AnswerMemory()
  memory.remember('a', [said('yes '), said('yes')], 0, turnOf(1))
  memory.remember('a', [calling('{"a": 1}')], 0, turnOf(2))
  expect(memory.recall('a', [{ role: 'assistant', content: [{ type: 'text', text: 'yes' }] }])).toEqual([turnOf(1)])
  expect(memory.recall('a', [calling('{"a":1}')])).toEqual([turnOf(2)])
  expect(memory.recall('a', [calling({ a: 1 })])).toEqual([turnOf(2)])
})

test('what was edited, of another call, of another role or of another owner is not', () => {
  const memory = new AnswerMemory()
  memory.remember('a', [calling('{"a": 1}')], 0, turnOf(2))
  memory.remember('a', [said('yes')], 0, turnOf(1))
  const others = [calling('{"a": 2}'), calling('{"a": 1}', callIdOf('2')), said('no'), { role: 'user', content: 'yes' }]
  expect(memory.recall('a', others)).toEqual([])
  expect(memory.recall('b', [said('yes')])).toEqual([])
})

test('an answer is found at its own place only: the same words further on bring none back that was corrected or taken anew', () => {
  const user = { role: 'user', content: 'Which is it?' }
  const memory = new AnswerMemory()
  memory.remember('a', [said('negative')], 1, turnOf(1))
  memory.remember('a', [said('negative')], 3, turnOf(3))
  expect(memory.recall('a', [user, said('positive'), user, said('negative'), user])).toEqual([turnOf(3)])
  // two choices of one request, the one that was not taken said later
  memory.remember('b', [said('positive')], 1, turnOf(1))
  memory.remember('b', [said('negative')], 1, turnOf(2))
  expect(memory.recall('b', [user, said('positive'), user, said('negative'), user])).toEqual([turnOf(1)])
  expect(memory.recall('b', [user, said('negative'), user])).toEqual([turnOf(2)])
  // and as they were said, both keep their tokens
  expect(memory.recall('a', [user, said('negative'), user, said('negative'), user])).toEqual([turnOf(1), turnOf(3)])
})

test('answers of one text are told apart by their prompts, the newest sixteen', () => {
  const memory = new AnswerMemory()
  for (let id = 0; id < 20; id++) memory.remember('a', [said('yes')], 0, turnOf(id))
  const found = memory.recall('a', [said('yes')])
  expect(found.map(({ prompt }) => prompt.length)).toEqual(Array.from({ length: 16 }, (_, i) => i + 4))
})

test('who holds most gives way first, the oldest of what nobody asked for', () => {
  const memory = new AnswerMemory(2000)
  memory.remember('small', [said('0')], 0, turnOf(0, 100))
  memory.remember('large', [said('1')], 0, turnOf(1, 500))
  memory.remember('large', [said('2')], 0, turnOf(2, 500))
  expect(memory.recall('large', [said('1')])).toHaveLength(1)
  memory.remember('large', [said('3')], 0, turnOf(3, 500))
  expect(memory.recall('small', [said('0')])).toHaveLength(1)
  expect(['1', '2', '3'].map((text) => memory.recall('large', [said(text)]).length)).toEqual([1, 0, 1])
})
