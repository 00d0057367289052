/**
 * Very short stories about a named hero: a wish, an obstacle, a helper, an end. Plain words, written for this project.
 *
 * Also the main source of connected plain text (`text/documents.js`). Heroes are held out; they may still be helpers.
 */
import { words } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { ANIMALS, COLORS, FOODS, NAMES, OBJECTS, PLACES } from './lists.js'
import { capitalize, chance, pick, say, withArticle } from './say.js'

/** @typedef {import('./say.js').Rng} Rng */

const KINDS = [...ANIMALS, 'girl', 'boy', 'robot', 'king', 'queen', 'baker', 'farmer', 'dragon', 'teacher', 'painter']
const TRAITS = [
  'little',
  'small',
  'brave',
  'kind',
  'old',
  'young',
  'clever',
  'shy',
  'lazy',
  'quiet',
  'funny',
  'hungry',
  'curious',
  'gentle',
]

const OPENINGS = [
  'Once upon a time there was {aHero} named {name}. {name} lived [near|not far from|next to] the {place}.',
  '{name} was {aHero}. [Every day|Every morning|Every evening] {name} [walked|went] to the {place}.',
  'There was once {aHero} called {name}, who lived [by|near|behind] the {place}.',
  '[Long ago|One day|Last summer], {aHero} named {name} came to the {place}.',
]
const WISHES = [
  '{name} wanted [to find|to have] {anObject}.',
  'One [day|morning|evening] {name} lost {anObject}.',
  '{name} was [very |]hungry and looked for some {food}.',
  '{name} dreamed of {anObject}, but [had no money|did not know where to look].',
  'One [day|night] {name} heard a [strange|loud|soft] noise in the {place}.',
]
const OBSTACLES = [
  'It began to [rain|snow], and the road was [long|dark|wet].',
  'But the door was [locked|closed] and [nobody|no one] was there.',
  '{name} looked [everywhere|under every stone|behind every tree], but found nothing.',
  'The wind was [cold|strong], and {name} was [tired|afraid|alone].',
  'On the way {name} fell and hurt one [leg|foot].',
]
const HELPERS = [
  'Then {name} met {aHelper}. "Can I help you?" asked the {helper}. "[Yes, please|Oh yes|Thank you]," said {name}.',
  '{AHelper} came by and said, "[Do not worry|Come with me|I know what to do]!"',
  'A friendly {helper} saw {name} and gave {name} some {food}.',
  '"Why are you [sad|here|so quiet]?" asked {aHelper}. {name} told the whole story.',
]
const ENDS = [
  'Together they found {anObject} and [laughed|danced|sang] all day. From then on they were friends.',
  'They [shared|ate] some {food}, and {name} was happy again.',
  'In the end {name} went home with {anObject}. It was a good day.',
  '{name} thanked the {helper} and slept well that night.',
  'And so {name} learned that [it is good to have friends|a small gift can be a great joy|it helps to ask].',
]
const ASK = [
  '[Tell|Can you tell|Please tell|Could you tell] me a [short |little |]story about {aKind}[ named {name}|][.|?|]',
  '[Write|Make up|Invent] a [short |very short |]story [about|with] {aKind}[ called {name}|][.|]',
  '[A story about|Story:] {aKind}[, please|][.|]',
]

/** A hero, and a story about one. @param {Rng} rng */
export function drawStory(rng) {
  const kind = pick(rng, KINDS)
  const place = pick(rng, PLACES)
  const helper = pick(
    rng,
    KINDS.filter((other) => other !== kind),
  )
  const hero = `${pick(rng, TRAITS)} ${kind}`
  const object = `${chance(rng, 0.5) ? `${pick(rng, COLORS)} ` : ''}${pick(rng, OBJECTS)}`
  const trait = pick(rng, TRAITS)
  const values = {
    name: pick(rng, NAMES),
    aKind: withArticle(kind),
    aHero: withArticle(hero),
    place,
    helper,
    aHelper: withArticle(`${trait} ${helper}`),
    AHelper: capitalize(withArticle(`${trait} ${helper}`)),
    anObject: withArticle(object),
    food: pick(rng, FOODS),
  }
  const parts = [OPENINGS, WISHES, ...(chance(rng, 0.7) ? [OBSTACLES] : []), HELPERS, ENDS]
  const text = parts.map((templates) => say(rng, templates, values)).join(' ')
  return { kind, name: values.name, text, question: say(rng, ASK, values) }
}

export const story = defineAbility({
  name: 'story',
  summary: 'a very short story about an asked hero',
  share: 4,
  draw(rng) {
    const { kind, name, text, question } = drawStory(rng)
    return {
      task: question.includes(name) ? 'named' : 'kind',
      keys: [`story:${kind}`],
      messages: exchange(question, text),
      expect: { kind, name: question.includes(name) ? name : null },
    }
  },
  score({ expect }, { content }) {
    const said = words(content)
    const sentences = content.split(/[.!?]["”]?(?:\s|$)/).filter((sentence) => sentence.trim() !== '').length
    const isNamed = expect.name === null || said.includes(String(expect.name).toLowerCase())
    const hasHero = said.includes(String(expect.kind))
    const isWhole = /[.!?]["”]?$/.test(content) && sentences >= 3 && sentences <= 12
    const isVaried = new Set(said).size >= Math.min(20, said.length / 3)
    return said.length < 10 ? 0 : 0.25 * [isNamed, hasHero, isWhole, isVaried].filter(Boolean).length
  },
})
