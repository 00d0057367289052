/**
 * Calls of tools that nobody has seen before: names, arguments and questions are put together anew for every row, so that only who reads
 * what is offered can call it. A tenth of all names is held out.
 */
import { toPythonJson } from '#formats/answers/tool-calls.js'
import { commonWords } from '../text/common-words.js'
import { defineAbility } from './define.js'
import { CITIES, COLORS, DAYS, FOODS, JOBS, NAMES, OBJECTS, PLACES, plural } from './lists.js'
import { between, capitalize, chance, pick, sample, say, shuffle, withArticle } from './say.js'
import { drawSmallTalk } from './small-talk.js'
import { scoreCall } from './tools.js'

/**
 * @typedef {import('./say.js').Rng} Rng
 * @typedef {{ names: readonly string[], type: 'string' | 'integer', about: string, draw: (rng: Rng) => string | number, said: readonly string[] }} Field
 *   `said`: how a question says it, behind the thing
 * @typedef {{ name: string, about: string, fields: Record<string, Field>, ask: (rng: Rng, given: Record<string, string | number>) => string }} AnyTool
 */

const VERBS = [
  'open',
  'close',
  'move',
  'send',
  'pack',
  'buy',
  'sell',
  'rent',
  'clean',
  'fix',
  'check',
  'reserve',
  'deliver',
  'print',
  'start',
  'stop',
  'lock',
  'wash',
  'build',
  'plan',
  'share',
  'save',
  'update',
  'remove',
  'ship',
  'measure',
  'draw',
  'cook',
  'weigh',
  'track',
]
const THINGS = [
  'room',
  'report',
  'ticket',
  'parcel',
  'invoice',
  'meeting',
  'song',
  'photo',
  'window',
  'garden',
  'oven',
  'pump',
  'robot',
  'light',
  'camera',
  'letter',
  'seat',
  'tour',
  'lesson',
  'file',
]
const FACTS = [
  'weight',
  'size',
  'age',
  'status',
  'distance',
  'stock',
  'owner',
  'phone',
  'level',
  'score',
  'date',
  'width',
  'speed',
  'rank',
  'menu',
  'address',
  'rating',
  'value',
  'length',
  'history',
]
const TIMES = (/** @type {Rng} */ rng) =>
  `${String(between(rng, 0, 23)).padStart(2, '0')}:${pick(rng, ['00', '15', '30', '45'])}`

/** @type {readonly Field[]} */
const FIELDS = [
  {
    names: ['city', 'place', 'location'],
    type: 'string',
    about: 'city name',
    draw: (rng) => pick(rng, CITIES),
    said: ['in {v}', 'near {v}', 'at my place in {v}'],
  },
  {
    names: ['to', 'destination', 'target'],
    type: 'string',
    about: 'where to',
    draw: (rng) => pick(rng, CITIES),
    said: ['to {v}'],
  },
  {
    names: ['from', 'start', 'origin'],
    type: 'string',
    about: 'where from',
    draw: (rng) => pick(rng, CITIES),
    said: ['from {v}'],
  },
  {
    names: ['person', 'name', 'customer', 'receiver'],
    type: 'string',
    about: 'name of the person',
    draw: (rng) => pick(rng, NAMES),
    said: ['for {v}', 'with {v}'],
  },
  {
    names: ['day', 'date', 'weekday'],
    type: 'string',
    about: 'day of the week',
    draw: (rng) => pick(rng, DAYS),
    said: ['on {v}', 'this {v}'],
  },
  { names: ['time', 'hour', 'at'], type: 'string', about: 'time of day', draw: TIMES, said: ['at {v}'] },
  {
    names: ['color', 'paint'],
    type: 'string',
    about: 'a color',
    draw: (rng) => pick(rng, COLORS),
    said: ['in {v}', 'with {v} paint'],
  },
  {
    names: ['area', 'where', 'spot'],
    type: 'string',
    about: 'a place',
    draw: (rng) => pick(rng, PLACES),
    said: ['at the {v}', 'behind the {v}'],
  },
  {
    names: ['size', 'kind', 'mode'],
    type: 'string',
    about: 'small, medium or large',
    draw: (rng) => pick(rng, ['small', 'medium', 'large']),
    said: ['in size {v}', 'as {v}'],
  },
  {
    names: ['price', 'limit', 'budget'],
    type: 'integer',
    about: 'in dollars',
    draw: (rng) => between(rng, 1, 200),
    said: ['for {v} dollars', 'for at most {v} dollars'],
  },
  {
    names: ['minutes', 'duration'],
    type: 'integer',
    about: 'in minutes',
    draw: (rng) => between(rng, 1, 90),
    said: ['for {v} minutes'],
  },
  {
    names: ['note', 'word', 'label', 'code'],
    type: 'string',
    about: 'a word',
    draw: (rng) => pick(rng, commonWords()),
    said: ['with the word {v}', 'labelled {v}'],
  },
]
/** What stands in the question itself, not behind it. @type {Record<'item' | 'items' | 'count', Field>} */
const INSIDE = {
  item: {
    names: ['item', 'object', 'product', 'thing'],
    type: 'string',
    about: 'what',
    draw: (rng) => pick(rng, chance(rng, 0.5) ? OBJECTS : FOODS),
    said: [],
  },
  items: {
    names: ['item', 'object', 'product', 'thing'],
    type: 'string',
    about: 'what',
    draw: (rng) => plural(pick(rng, OBJECTS)),
    said: [],
  },
  count: {
    names: ['count', 'number', 'amount', 'quantity'],
    type: 'integer',
    about: 'how many',
    draw: (rng) => between(rng, 2, 20),
    said: [],
  },
}

/** @param {Rng} rng @param {readonly string[]} words */
const nameOf = (rng, words) =>
  chance(rng, 0.85) ? words.join('_') : words.map((each, at) => (at === 0 ? each : capitalize(each))).join('')

/** Behind the question, in any order. @param {Rng} rng @param {number} most @param {readonly string[]} taken */
function fieldsBehind(rng, most, taken) {
  /** @type {Record<string, Field>} */
  const fields = {}
  for (const field of sample(rng, FIELDS, between(rng, 0, most))) {
    const free = field.names.filter((name) => !(name in fields) && !taken.includes(name))
    if (free.length > 0) fields[pick(rng, free)] = field
  }
  return fields
}

/** @param {Rng} rng @param {Record<string, Field>} fields @param {Record<string, string | number>} given */
const behind = (rng, fields, given) =>
  shuffle(rng, Object.entries(fields))
    .map(([name, { said }]) => ` ${say(rng, said, { v: given[name] })}`)
    .join('')

/** "What is the weight of the lamp?" @param {Rng} rng @returns {AnyTool} */
function drawFact(rng) {
  const fact = pick(rng, FACTS)
  const [whose, field] = pick(rng, [
    [pick(rng, INSIDE.item.names), INSIDE.item],
    ['name', { ...INSIDE.item, about: 'name of the person', draw: (/** @type {Rng} */ r) => pick(r, NAMES) }],
    ['city', { ...INSIDE.item, about: 'city name', draw: (/** @type {Rng} */ r) => pick(r, CITIES) }],
    ['job', { ...INSIDE.item, about: 'a job', draw: (/** @type {Rng} */ r) => pick(r, JOBS) }],
  ])
  const more = fieldsBehind(rng, 1, [whose])
  return {
    name: nameOf(rng, [pick(rng, ['get', 'find', 'read', 'show', 'look_up']), fact]),
    about: say(rng, '[Get|Find|Read|Show] the {fact}[ of something|]', { fact }),
    fields: { [whose]: field, ...more },
    ask: (r, given) => {
      const of = given[whose]
      const thing = field.draw === INSIDE.item.draw ? `the ${of}` : String(of)
      return say(
        r,
        [
          "[What is|What's|Tell me|I need|Look up] the {fact} of {thing}{rest}",
          '[Do you know|Can you find] the {fact} of {thing}{rest}',
        ],
        {
          fact,
          thing,
          rest: behind(r, more, given),
        },
      )
    },
  }
}

/** "Send 3 lamps to Oslo." @param {Rng} rng @returns {AnyTool} */
function drawDeed(rng) {
  const verb = pick(rng, VERBS)
  const form = pick(rng, ['thing', 'item', 'items'])
  const thing = pick(rng, THINGS)
  const [item, count] = [pick(rng, INSIDE.item.names), pick(rng, INSIDE.count.names)]
  /** @type {Record<string, Field>} */
  const inside =
    form === 'thing' ? {} : form === 'item' ? { [item]: INSIDE.item } : { [item]: INSIDE.items, [count]: INSIDE.count }
  const more = fieldsBehind(rng, form === 'items' ? 1 : 2, Object.keys(inside))
  const least = form === 'thing' && Object.keys(more).length === 0 ? { day: FIELDS[4] } : {}
  const rest = { ...more, ...least }
  return {
    name: nameOf(
      rng,
      form === 'thing' ? [verb, thing] : [verb, pick(rng, ['item', 'things', 'goods', 'order', 'stuff', thing])],
    ),
    about: say(rng, '{Verb} [{thing}|something]', {
      Verb: capitalize(verb),
      thing: form === 'thing' ? withArticle(thing) : 'things',
    }),
    fields: { ...inside, ...rest },
    ask: (r, given) => {
      const what =
        form === 'thing'
          ? pick(r, [`the ${thing}`, `my ${thing}`, withArticle(thing)])
          : form === 'item'
            ? pick(r, [`the ${given[item]}`, withArticle(String(given[item]))])
            : `${given[count]} ${given[item]}`
      return say(
        r,
        [
          '{Verb} {what}{rest}',
          'Please {verb} {what}{rest}',
          '[Can|Could] you {verb} {what}{rest}',
          'I [want|need] to {verb} {what}{rest}',
        ],
        { verb, Verb: capitalize(verb), what, rest: behind(r, rest, given) },
      )
    },
  }
}

/** @param {Rng} rng */
const drawTool = (rng) => (chance(rng, 0.35) ? drawFact(rng) : drawDeed(rng))

/** @param {Rng} rng @param {AnyTool} tool */
function definitionOf(rng, { name, about, fields }) {
  const hasDescriptions = chance(rng, 0.6)
  const properties = Object.fromEntries(
    Object.entries(fields).map(([field, { type, about: of }]) => [
      field,
      { type, ...(hasDescriptions ? { description: of } : {}) },
    ]),
  )
  const parameters = { type: 'object', properties, required: Object.keys(properties) }
  return { type: /** @type {const} */ ('function'), function: { name, description: about, parameters } }
}

/** The wanted tool among others, whose names differ. @param {Rng} rng @param {AnyTool} wanted */
function offer(rng, wanted) {
  const tools = [wanted]
  for (let count = between(rng, 0, 2); count > 0; count--) {
    const other = drawTool(rng)
    if (tools.every(({ name }) => name !== other.name)) tools.push(other)
  }
  return shuffle(rng, tools).map((tool) => definitionOf(rng, tool))
}

export const anyTool = defineAbility({
  name: 'any-tool',
  summary: 'call a tool that is offered and was never seen, with its arguments, or none',
  share: 16,
  draw(rng) {
    const tool = drawTool(rng)
    const tools = offer(rng, tool)
    if (chance(rng, 0.1)) {
      const { keys, question, answer } = drawSmallTalk(rng)
      const messages = [
        { role: /** @type {const} */ ('user'), content: question },
        { role: /** @type {const} */ ('assistant'), content: answer },
      ]
      return { task: 'none', keys, tools, messages, expect: { name: null } }
    }
    const given = Object.fromEntries(Object.entries(tool.fields).map(([name, { draw }]) => [name, draw(rng)]))
    const asked = tool.ask(rng, given)
    const question = `${asked}${/^(?:What|Do|Can|Could)/.test(asked) ? '?' : pick(rng, ['.', '.', ''])}`
    const id = `call_${rng
      .integer(2 ** 31)
      .toString(16)
      .padStart(8, '0')}`
    const call = {
      id,
      type: /** @type {const} */ ('function'),
      function: { name: tool.name, arguments: toPythonJson(given) },
    }
    return {
      task: `${Object.keys(given).length} argument${Object.keys(given).length === 1 ? '' : 's'}`,
      keys: [`tool:${tool.name}`],
      tools,
      messages: [
        { role: 'user', content: question },
        { role: 'assistant', content: '', tool_calls: [call] },
      ],
      expect: { name: tool.name, arguments: given },
    }
  },
  score: scoreCall,
})
