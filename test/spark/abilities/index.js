/**
 * Every ability of `trainyard/spark`, in the order of tables.
 */
import { anyTool } from './any-tool.js'
import { arithmetic } from './arithmetic.js'
import { capitals, continents } from './capitals.js'
import { copy } from './copy.js'
import { fillJson } from './fill-json.js'
import { forms } from './forms.js'
import { jsonLists } from './json-lists.js'
import { only } from './only.js'
import { sentiment } from './sentiment.js'
import { smallTalk } from './small-talk.js'
import { story } from './story.js'
import { toolAnswer, toolCall } from './tools.js'
import { count } from './words/count.js'
import { explain } from './words/explain.js'
import { repeat } from './words/repeat.js'
import { reverse } from './words/reverse.js'
import { sort } from './words/sort.js'
import { spell } from './words/spell.js'
import { yesNo } from './yes-no.js'

/** Those of the first 3,600 steps, of which the tokenizer was made. @type {readonly import('./define.js').Ability[]} */
export const FIRST_ABILITIES = [
  smallTalk,
  repeat,
  spell,
  reverse,
  sort,
  count,
  arithmetic,
  capitals,
  continents,
  yesNo,
  sentiment,
  only,
  fillJson,
  toolCall,
  toolAnswer,
  explain,
  story,
]

/** All, with those that came behind. @type {readonly import('./define.js').Ability[]} */
export const ABILITIES = [...FIRST_ABILITIES, copy, forms, jsonLists, anyTool]

/** @param {string} name @throws when there is no such ability */
export function abilityOf(name) {
  const found = ABILITIES.find((ability) => ability.name === name)
  if (found === undefined)
    throw new Error(`ability "${name}" is none of ${ABILITIES.map((ability) => ability.name).join(', ')}`)
  return found
}
