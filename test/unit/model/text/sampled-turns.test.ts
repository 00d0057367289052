/** Answers that keep their tokens in a rendered conversation, and when they do not. */
import { beforeAll, expect, test } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { renderConversation } from '#model/text/render.js'
import { markOfPrompt, type SampledTurn } from '#model/text/sampled-turns.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'

let model: TextModel
beforeAll(async () => {
  model = await loadTextModel(`${packageRoot()}/src/assets/spark`)
})

const user = { role: 'user', content: 'Hi' }
const answer = { role: 'assistant', content: 'A tree, a lake' }
const conversation = [user, answer, user]
/** As no tokenizer cuts a text: a token a character. */
const inPieces = (text: string): number[] => [...text].flatMap((character) => model.tokenizer.encode(character))
const endId = (): number => model.tokenizer.tokenToId('<|im_end|>') ?? -1

function sampledOf(tokenIds: readonly number[], messages: readonly (typeof user)[] = [user]): SampledTurn {
  return { prompt: markOfPrompt(renderConversation(model, { messages }).text), tokenIds }
}
const idsOf = (sampled: readonly SampledTurn[], messages = conversation) =>
  renderConversation(model, { messages, sampled }).tokenIds
const decoded = (ids: readonly number[]): string => model.tokenizer.decode(ids)

test('the prompt begins with the first one and the tokens of its answer; its text stays', () => {
  const ids = [...inPieces(answer.content), endId()]
  const { tokenIds: first } = renderConversation(model, { messages: [user] })
  const found = idsOf([sampledOf(ids)])
  expect(found.slice(0, first.length + ids.length)).toEqual([...first, ...ids])
  expect(decoded(found)).toBe(decoded(idsOf([])))
  // an earlier one stays where a later one is found behind it
  const next = sampledOf([...inPieces(answer.content), endId()], conversation)
  const longer = idsOf([next, sampledOf(ids)], [...conversation, answer, user])
  expect(longer.slice(0, found.length)).toEqual(found)
  expect(longer.slice(found.length, found.length + ids.length)).toEqual(ids)
})

test('an answer that was cut is ended by the template', () => {
  const ids = inPieces('A tree, a lake')
  const found = idsOf([sampledOf(ids)])
  expect(decoded(found)).toBe(decoded(idsOf([])))
  expect(found).toEqual(expect.arrayContaining(ids))
})

test('an answer to another prompt, and reasoning that the template leaves out, are tokenized from the text', () => {
  const plain = idsOf([])
  const other = sampledOf(inPieces('A tree, a lake'), [{ role: 'user', content: 'Ho' }])
  expect(idsOf([other])).toEqual(plain)
  expect(idsOf([sampledOf([...inPieces('<think>x</think>A tree, a lake'), endId()])])).toEqual(plain)
})
