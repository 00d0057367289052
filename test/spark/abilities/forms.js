/**
 * Short forms that signs make: e-mail addresses, prices, per cent, tags, brackets, lists with marks, settings, comparisons.
 */
import { commonWords } from '../text/common-words.js'
import { editDistance, PARTIAL } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { NAMES, OBJECTS, PLACES } from './lists.js'
import { between, chance, listing, pick, sample, say } from './say.js'

/** @typedef {import('./say.js').Rng} Rng @typedef {(rng: Rng) => { key: string, question: string, answer: string }} Draw */

const ENDS = ['com', 'org', 'net', 'de', 'fr', 'io', 'eu', 'co']
const word = (/** @type {Rng} */ rng) => pick(rng, commonWords())

/** Names of signs that stand around something, and what opens and closes it. */
/** @type {readonly [string, string, string][]} */
const PAIRS = [
  ['parentheses', '(', ')'],
  ['round brackets', '(', ')'],
  ['square brackets', '[', ']'],
  ['curly braces', '{', '}'],
  ['braces', '{', '}'],
  ['angle brackets', '<', '>'],
  ['double quotes', '"', '"'],
  ['single quotes', "'", "'"],
  ['backticks', '`', '`'],
  ['stars', '*', '*'],
  ['underscores', '_', '_'],
  ['tildes', '~', '~'],
  ['pipes', '|', '|'],
  ['dollar signs', '$', '$'],
  ['percent signs', '%', '%'],
]
/** @type {readonly [string, string][]} */
const JOINTS = [
  ['a slash', '/'],
  ['a backslash', '\\'],
  ['a pipe', '|'],
  ['an ampersand', '&'],
  ['an equals sign', '='],
  ['a plus sign', '+'],
  ['a hash', '#'],
  ['an at sign', '@'],
  ['a caret', '^'],
  ['a tilde', '~'],
  ['a dash', '-'],
  ['an underscore', '_'],
  ['a colon', ':'],
  ['a semicolon', ';'],
  ['a dot', '.'],
  ['a star', '*'],
  ['a comma', ','],
]
const TAGS = ['b', 'i', 'p', 'h1', 'li', 'em', 'code', 'name', 'answer', 'result', 'note', 'title', 'item', 'think']

/** @param {Rng} rng */
function money(rng) {
  const [sign, name] = pick(rng, [
    ['$', 'dollars'],
    ['€', 'euros'],
    ['£', 'pounds'],
  ])
  const whole = between(rng, 1, chance(rng, 0.3) ? 2500 : 99)
  const cents = chance(rng, 0.5) ? `.${String(between(rng, 0, 99)).padStart(2, '0')}` : ''
  return { amount: `${sign}${whole}${cents}`, sign, name, number: `${whole}${cents}` }
}

/** @param {Rng} rng */
function address(rng) {
  const [left, right] = [pick(rng, NAMES).toLowerCase(), word(rng)]
  const user = pick(rng, [
    left,
    `${left}.${right}`,
    `${left}_${right}`,
    `${right}${between(rng, 1, 99)}`,
    `${left}-${right}`,
  ])
  return { user, domain: `${word(rng)}.${pick(rng, ENDS)}` }
}

/** @type {Record<string, Draw>} */
const DRAWS = {
  mail(rng) {
    const { user, domain } = address(rng)
    const answer = `${user}@${domain}`
    const question = say(
      rng,
      [
        '[Make|Write|Build] [an e-mail address|an email address|a mail address] [from|of|with] {user} and {domain}[.|]',
        '[Find|Extract|Copy] the [e-mail address|email]: {name} [writes from|can be reached at|uses] {answer} [these days|at the {place}|now].',
        '{name} at the {place} has the address {answer}. [What is the e-mail address?|Write the address.]',
        'user {user}, [domain|host] {domain}: [email|e-mail address]',
      ],
      { user, domain, answer, name: pick(rng, NAMES), place: pick(rng, PLACES) },
    )
    return { key: `mail:${answer}`, question, answer }
  },
  mailPart(rng) {
    const { user, domain } = address(rng)
    const isUser = chance(rng, 0.5)
    const question = say(
      rng,
      isUser
        ? '[What stands|The part] before the @ in {text}[?|:]'
        : '[What stands|The part] after the @ in {text}[?|:]',
      {
        text: `${user}@${domain}`,
      },
    )
    return { key: `mail:${user}@${domain}`, question, answer: isUser ? user : domain }
  },
  money(rng) {
    const { amount, name, number } = money(rng)
    const question = say(
      rng,
      [
        '[Write|Say] {number} {name} with the [sign|symbol][.|]',
        '{number} {name} [with the sign|as an amount][:|]',
        '[Find|Extract|Copy] the amount: {person} paid {amount} for the {thing}[.|].',
        'The {thing} [is|was sold for] {amount} at the {place}. [How much is it?|What is the amount?]',
      ],
      { amount, name, number, person: pick(rng, NAMES), thing: pick(rng, OBJECTS), place: pick(rng, PLACES) },
    )
    return { key: `money:${amount}`, question, answer: amount }
  },
  number(rng) {
    const { amount, name, number } = money(rng)
    return {
      key: `money:${amount}`,
      question: say(rng, 'How many {name} [is|are] {amount}?', { name, amount }),
      answer: number,
    }
  },
  percent(rng) {
    const number = between(rng, 0, 100)
    const question = say(rng, '[Write|Say] {number} percent with the [sign|symbol][.|]', { number })
    return { key: `percent:${number}`, question, answer: `${number}%` }
  },
  around(rng) {
    const [name, open, close] = pick(rng, PAIRS)
    const text = chance(rng, 0.7) ? word(rng) : String(between(rng, 0, 999))
    const question = say(rng, ['[Put|Write|Set] [{text}|"{text}"] in {name}[.|]', '{text} [in|inside] {name}[:|]'], {
      text,
      name,
    })
    return { key: `around:${open}${text}`, question, answer: `${open}${text}${close}` }
  },
  join(rng) {
    const [name, sign] = pick(rng, JOINTS)
    const words = sample(rng, commonWords(), between(rng, 2, 4))
    const question = say(rng, ['[Join|Connect] {list} with {name}[.|]', '[Put|Write] {name} between {list}[.|]'], {
      list: listing(words),
      name,
    })
    return { key: `join:${words.join(' ')}`, question, answer: words.join(sign) }
  },
  tag(rng) {
    const [tag, text] = [pick(rng, TAGS), sample(rng, commonWords(), between(rng, 1, 2)).join(' ')]
    const question = say(
      rng,
      ['[Put|Wrap|Write] {text} in [a <{tag}> tag|{tag} tags|<{tag}> tags][.|]', '[Mark|Tag] {text} as {tag}[.|]'],
      {
        tag,
        text,
      },
    )
    return { key: `tag:${text}`, question, answer: `<${tag}>${text}</${tag}>` }
  },
  marks(rng) {
    const [name, mark] = pick(rng, [
      ['dashes', '- '],
      ['stars', '* '],
      ['hashes', '# '],
      ['numbers', ''],
    ])
    const words = sample(rng, commonWords(), between(rng, 2, 4))
    const answer = words.map((each, at) => `${mark === '' ? `${at + 1}. ` : mark}${each}`).join('\n')
    const question = say(rng, '[Write|Give|Make] {list} as a list with {name}[, one a line|][.|]', {
      list: listing(words),
      name,
    })
    return { key: `marks:${words.join(' ')}`, question, answer }
  },
  setting(rng) {
    const [name, value] = [word(rng), chance(rng, 0.5) ? word(rng) : String(between(rng, 0, 99))]
    const question = say(rng, '[Set|Let] {name} [to|be] {value}[, as a line of settings|] [with an equals sign|][.|]', {
      name,
      value,
    })
    return {
      key: `setting:${name}=${value}`,
      question: question.replace(/ {2,}/g, ' ').replace(/ ([.])?$/, '$1'),
      answer: `${name}=${value}`,
    }
  },
  compare(rng) {
    const [left, right] = sample(
      rng,
      Array.from({ length: 100 }, (_, at) => at),
      2,
    )
    const question = say(rng, '[Write|Put] < or > between {left} and {right}[.|]', { left, right })
    return { key: `compare:${left},${right}`, question, answer: `${left} ${left < right ? '<' : '>'} ${right}` }
  },
  which(rng) {
    const [before, after] = sample(rng, commonWords(), 2)
    const sign = pick(rng, [...'!#$%&*+-/:;<=>?@^_|~'])
    const question = say(rng, '[Which sign|What] stands between {before} and {after} in {before}{sign}{after}?', {
      before,
      after,
      sign,
    })
    return { key: `join:${before} ${after}`, question, answer: sign }
  },
}

export const forms = defineAbility({
  name: 'forms',
  summary: 'write and find e-mail addresses, amounts, tags, brackets, lists with marks',
  share: 12,
  draw(rng) {
    const task = pick(rng, Object.keys(DRAWS))
    const { key, question, answer } = DRAWS[task](rng)
    return { task, keys: [key], messages: exchange(question, answer), expect: { answer } }
  },
  score({ expect }, { content }) {
    const answer = String(expect.answer)
    if (content === answer) return 1
    const longest = Math.max(answer.length, content.length)
    return longest > 200 ? 0 : Math.max(0, PARTIAL * (1 - editDistance(answer, content) / longest))
  },
})
