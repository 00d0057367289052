/**
 * Twenty small tasks as people bring them, for `run.js`: prompts with the answer that is wanted, written by seeded code, and
 * what an answer is worth. None stands in a document, in `test/bench/newcomer`, in what `trainyard init` writes or in what the
 * built-in model was made of. Held-out prompts are never trained on; where a task has words of its own, some of them are held
 * out as well.
 *
 * Some ask for what the built-in model cannot write today (`[`, `@`, `$`, `<`): a product that says so at once has answered, too.
 */

/** Numbers from 0 to below `n`, the same for the same seed. Mulberry32. */
function dice(seed) {
  let state = seed
  return (n) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * n)
  }
}

const [TRAINED, HELD_OUT] = [160, 24]

/**
 * So many different rows of a seed, the held-out ones from draws of their own. @param write `(roll, isHeldOut) => [prompt,
 * answer]`
 */
function rowsOf(seed, write) {
  const seen = new Set()
  const draw = (count, isHeldOut) => {
    const roll = dice(seed * 2 + Number(isHeldOut))
    const rows = []
    for (let tries = 0; rows.length < count && tries < 50 * count; tries += 1) {
      const [prompt, answer] = write(roll, isHeldOut)
      if (seen.has(prompt)) continue
      seen.add(prompt)
      rows.push({ prompt, answer })
    }
    return rows
  }
  const heldOut = draw(HELD_OUT, true)
  return { heldOut, training: draw(TRAINED, false) }
}

/** One of a list; of its last third only held-out rows have any. */
const part = (list) => Math.ceil((list.length * 2) / 3)
const ownWord = (roll, isHeldOut, list) =>
  isHeldOut ? list[part(list) + roll(list.length - part(list))] : list[roll(part(list))]
const any = (roll, list) => list[roll(list.length)]
/** Three different ones. */
function three(roll, list) {
  const left = [...list]
  return [0, 1, 2].map(() => left.splice(roll(left.length), 1)[0])
}

const FIRST = ['Clara', 'Hugo', 'Ines', 'Jonas', 'Kira', 'Leo', 'Marta', 'Nils', 'Olga', 'Pablo', 'Rita', 'Sven']
const LAST = [
  'Adler',
  'Brandt',
  'Costa',
  'Duarte',
  'Ekman',
  'Fischer',
  'Grant',
  'Hansen',
  'Ivers',
  'Jensen',
  'Keller',
  'Lund',
]
const GOODS = ['milk', 'bread', 'eggs', 'rice', 'salt', 'tea', 'soap', 'paper', 'apples', 'cheese', 'butter', 'honey']
const WORDS = [
  'apple',
  'river',
  'stone',
  'cloud',
  'horse',
  'table',
  'green',
  'maple',
  'lemon',
  'ocean',
  'piano',
  'queen',
  'tiger',
  'violin',
  'winter',
  'zebra',
  'bridge',
  'dragon',
]
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
]
const two = (n) => String(n).padStart(2, '0')
const ordinal = (n) => `${n}${[11, 12, 13].includes(n) ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')}`

/** What tickets of a label are about; any of it goes with any trouble. */
const ABOUT = {
  team: {
    billing: ['the invoice', 'my card', 'the receipt', 'the fee', 'the payment', 'the discount'],
    delivery: ['the parcel', 'the courier', 'the van', 'the address label', 'the shipment', 'the driver'],
    account: ['my password', 'the login', 'my profile', 'my user name', 'the sign-up page', 'the code by text'],
    repair: ['the screen', 'the battery', 'the motor', 'the button', 'the fan', 'the cable'],
    office: [
      'the meeting room',
      'the coffee machine',
      'the parking place',
      'the front desk',
      'the canteen',
      'the lift',
    ],
  },
  urgency: {
    P1: [
      'The whole factory',
      'Every customer',
      'All of the network',
      'The main server',
      'The emergency line',
      'The alarm',
    ],
    P2: ['One office', 'A single user', 'The second printer', 'The weekly report', 'A test machine', 'The backup line'],
    P3: ['The logo', 'A help page', 'The icon', 'The dark theme', 'A typo', 'The menu colour'],
  },
}
const TROUBLE = [
  'is a problem again',
  'gives us trouble',
  'needs a look',
  'is wrong',
  'has been like this since Monday',
  'is not as it should be',
  'makes no sense',
  'worries my boss',
]

/** The label of a sentence that no row to train on has as a whole. */
const labelled = (seed, { of, ask }) =>
  rowsOf(seed, (roll) => {
    const label = any(roll, Object.keys(of))
    return [ask(`${any(roll, of[label])} ${any(roll, TROUBLE)}.`), label]
  })

const LANGUAGES = {
  de: ['und', 'der Hund', 'das Haus', 'ich habe', 'wir sind', 'nicht', 'heute', 'mit dem Zug', 'sehr gut', 'ein Buch'],
  fr: [
    'et',
    'le chien',
    'la maison',
    'nous avons',
    'je suis',
    'pas',
    'demain',
    'avec le train',
    'tres bien',
    'un livre',
  ],
  es: ['y', 'el perro', 'la casa', 'tenemos', 'estoy', 'nunca', 'hoy', 'con el tren', 'muy bien', 'un libro'],
  en: ['and', 'the dog', 'the house', 'we have', 'I am', 'not', 'today', 'by train', 'very good', 'a book'],
}

const units = [
  ['km', 'm', 1000],
  ['kg', 'g', 1000],
  ['hours', 'minutes', 60],
  ['m', 'cm', 100],
  ['minutes', 'seconds', 60],
]
const spoken = [
  'zero',
  'one',
  'two',
  'three',
  'four',
  'five',
  'six',
  'seven',
  'eight',
  'nine',
  'ten',
  'eleven',
  'twelve',
  'thirteen',
  'fourteen',
  'fifteen',
  'sixteen',
  'seventeen',
  'eighteen',
  'nineteen',
  'twenty',
]
const VERBS = [
  ['walk', 'walked'],
  ['play', 'played'],
  ['cook', 'cooked'],
  ['paint', 'painted'],
  ['clean', 'cleaned'],
  ['open', 'opened'],
  ['call', 'called'],
  ['visit', 'visited'],
  ['watch', 'watched'],
  ['help', 'helped'],
  ['start', 'started'],
  ['finish', 'finished'],
]
const OBJECTS = ['the door', 'the dog', 'a friend', 'the game', 'the house', 'the meal', 'a film', 'the shop']
const REQUESTS = [
  'send me the file',
  'call the bank',
  'close the window',
  'check the numbers',
  'book a room',
  'bring the keys',
  'print the form',
  'move the meeting',
  'water the plants',
  'answer the mail',
  'fix the light',
  'order more ink',
]
const NOUNS = [
  ['box', 'boxes'],
  ['cat', 'cats'],
  ['city', 'cities'],
  ['bus', 'buses'],
  ['leaf', 'leaves'],
  ['toy', 'toys'],
  ['dish', 'dishes'],
  ['lady', 'ladies'],
  ['knife', 'knives'],
  ['lamp', 'lamps'],
  ['story', 'stories'],
  ['fox', 'foxes'],
  ['wolf', 'wolves'],
  ['class', 'classes'],
  ['berry', 'berries'],
]
const TOOLS = [
  [
    'weather',
    (roll) => {
      const place = any(roll, ['Bern', 'Turin', 'Malaga', 'Porto', 'Ghent', 'Graz'])
      return [any(roll, [`Will it rain in ${place}?`, `How warm is it in ${place}?`]), place]
    },
  ],
  [
    'timer',
    (roll) => {
      const n = 2 + roll(58)
      return [any(roll, [`Wake me in ${n} minutes.`, `Ring in ${n} minutes.`]), String(n)]
    },
  ],
  [
    'search',
    (roll) => {
      const word = any(roll, WORDS)
      return [any(roll, [`Find pages about ${word}.`, `Look up ${word}.`]), word]
    },
  ],
  [
    'mail',
    (roll) => {
      const name = any(roll, FIRST)
      return [any(roll, [`Write to ${name}.`, `Send ${name} a note.`]), name]
    },
  ],
]

const TAG = '</verdict>'
const WORTH = {
  /** A part for each right piece of a list, all for the answer itself. */
  list: `export function reward(answer, row) {
  const wanted = JSON.parse(row.answer)
  let given
  try {
    given = JSON.parse(answer)
  } catch {
    return 0
  }
  if (!Array.isArray(given)) return 0
  const right = wanted.filter((each, i) => given[i] === each).length
  return given.length === wanted.length ? right / wanted.length : (0.5 * right) / wanted.length
}
`,
  /** Words at their place. */
  words: `export function reward(answer, row) {
  if (answer.trim() === row.answer) return 1
  const [given, wanted] = [answer.trim().split(/\\s+/), row.answer.split(' ')]
  return (0.8 * wanted.filter((word, i) => given[i] === word).length) / Math.max(given.length, wanted.length)
}
`,
  /** Half for the form, all for what stands in it as well. */
  tag: `export function reward(answer, row) {
  if (answer.trim() === row.answer) return 1
  return /^<verdict>(yes|no)<\\/verdict>$/.test(answer.trim()) ? 0.5 : 0
}
`,
}

const define = (rows, { reward = 'exact', maxTokens = 24, examples = 120 } = {}) => ({
  baseModel: 'trainyard/spark',
  ...rows,
  reward,
  maxTokens,
  examples,
})

/** Each as `test/bench/newcomer/tasks.js` has them. `examples` is how many right answers there are to show. */
export const TASKS = {
  dates: define(
    rowsOf(1, (roll) => {
      const [day, month, year] = [1 + roll(28), roll(12), 1990 + roll(40)]
      const said = any(roll, [`the ${ordinal(day)} of ${MONTHS[month]} ${year}`, `${MONTHS[month]} ${day}, ${year}`])
      return [`Write as a date with numbers: ${said}`, `${year}-${two(month + 1)}-${two(day)}`]
    }),
  ),
  times: define(
    rowsOf(2, (roll) => {
      const [hour, isLate] = [1 + roll(11), roll(2) === 1]
      const [said, minutes] = any(roll, [
        [`half past ${spoken[hour]}`, 30],
        [`quarter past ${spoken[hour]}`, 15],
        [`${spoken[hour]} sharp`, 0],
        [`ten past ${spoken[hour]}`, 10],
        [`five past ${spoken[hour]}`, 5],
        [`twenty past ${spoken[hour]}`, 20],
      ])
      const day = isLate ? any(roll, ['in the evening', 'p.m.']) : any(roll, ['in the morning', 'a.m.'])
      return [`Clock time of "${said} ${day}":`, `${two(hour + (isLate ? 12 : 0))}:${two(minutes)}`]
    }),
  ),
  units: define(
    rowsOf(3, (roll) => {
      const [from, to, factor] = any(roll, units)
      const n = 2 + roll(58)
      return [`${n} ${from} in ${to}:`, `${n * factor} ${to}`]
    }),
  ),
  amounts: define(
    rowsOf(4, (roll) => {
      const [whole, cents] = [1 + roll(20), any(roll, [0, 5, 10, 20, 50])]
      const tail = cents === 0 ? '' : ` and ${cents} cents`
      return [`As an amount: ${spoken[whole]} euros${tail}`, `EUR ${whole}.${two(cents)}`]
    }),
  ),
  team: define(labelled(5, { of: ABOUT.team, ask: (text) => `Ticket: ${text} Which team?` })),
  urgency: define(labelled(6, { of: ABOUT.urgency, ask: (text) => `${text} How urgent is it?` })),
  language: define(
    rowsOf(7, (roll) => {
      const code = any(roll, Object.keys(LANGUAGES))
      const words = three(roll, LANGUAGES[code])
      return [`Language code of: ${words.join(' ')}`, code]
    }),
  ),
  'json-list': define(
    rowsOf(8, (roll) => {
      const things = three(roll, GOODS)
      return [`We need ${things[0]}, ${things[1]} and ${things[2]}. The things as a JSON list:`, JSON.stringify(things)]
    }),
    { reward: WORTH.list, maxTokens: 32 },
  ),
  'mail-address': define(
    rowsOf(9, (roll, isHeldOut) => {
      const [first, last] = [ownWord(roll, isHeldOut, FIRST), any(roll, LAST)]
      const address =
        `${first}.${last}@${any(roll, ['post', 'work', 'shop', 'home'])}.${any(roll, ['com', 'org', 'net'])}`.toLowerCase()
      return [
        any(roll, [
          `Please answer ${address} by Friday. Which address?`,
          `My mail is ${address}, thanks. Which address?`,
        ]),
        address,
      ]
    }),
    { maxTokens: 32 },
  ),
  price: define(
    rowsOf(10, (roll) => {
      const [cost, size] = [3 + roll(96), 2 + roll(9)]
      const thing = any(roll, ['lamp', 'chair', 'desk', 'rug', 'mirror', 'shelf'])
      return [`${any(roll, ['Only', 'Now', 'Just'])} ${size} left: the ${thing} costs $${cost}. The price:`, `$${cost}`]
    }),
  ),
  polite: define(
    rowsOf(11, (roll, isHeldOut) => {
      const [request, name] = [ownWord(roll, isHeldOut, REQUESTS), any(roll, FIRST)]
      return [`Say it politely: ${name}, ${request}.`, `${name}, could you please ${request}?`]
    }),
    { reward: WORTH.words, maxTokens: 32 },
  ),
  'sort-three': define(
    rowsOf(12, (roll) => {
      const words = three(roll, WORDS)
      return [`Sort by the alphabet: ${words.join(' ')}`, words.toSorted().join(' ')]
    }),
    { reward: WORTH.words },
  ),
  tool: define(
    rowsOf(13, (roll) => {
      const [name, write] = any(roll, TOOLS)
      const [said, argument] = write(roll)
      return [`Tools: weather, timer, search, mail. ${said} Which tool, with what?`, `${name}: ${argument}`]
    }),
  ),
  verdict: define(
    rowsOf(14, (roll) => {
      const [a, b] = [10 + roll(80), 10 + roll(80)]
      return [`Is ${a} more than ${b}? Answer in a verdict tag.`, `<verdict>${a > b ? 'yes' : 'no'}${TAG}`]
    }),
    { reward: WORTH.tag, maxTokens: 32 },
  ),
  initials: define(
    rowsOf(15, (roll, isHeldOut) => {
      const [first, last] = [ownWord(roll, isHeldOut, FIRST), any(roll, LAST)]
      const middle = any(roll, FIRST)
      return [`Initials of ${first} ${middle} ${last}:`, `${first[0]}.${middle[0]}.${last[0]}.`]
    }),
  ),
  slug: define(
    rowsOf(16, (roll, isHeldOut) => {
      const words = ['The', any(roll, WORDS), 'and', 'the', ownWord(roll, isHeldOut, WORDS)]
      const title = words.map((word) => word[0].toUpperCase() + word.slice(1)).join(' ')
      return [`Page title "${title}" as the end of a link:`, title.toLowerCase().replaceAll(' ', '-')]
    }),
  ),
  phone: define(
    rowsOf(17, (roll) => {
      const [area, a, b] = [any(roll, ['30', '40', '89', '69']), 100 + roll(900), 10 + roll(90)]
      return [`Phone number 0${area} / ${a} ${b} in the international form:`, `+49 ${area} ${a}${b}`]
    }),
  ),
  record: define(
    rowsOf(18, (roll, isHeldOut) => {
      const [name, thing, count] = [ownWord(roll, isHeldOut, FIRST), any(roll, GOODS), 2 + roll(48)]
      const said = any(roll, [`${name} ordered ${count} times ${thing}`, `${count} times ${thing}, for ${name}`])
      return [`${said}. As a line of a table:`, `${name};${thing};${count}`]
    }),
  ),
  past: define(
    rowsOf(19, (roll, isHeldOut) => {
      const [[now, then], name, object] = [any(roll, VERBS), ownWord(roll, isHeldOut, FIRST), any(roll, OBJECTS)]
      return [`Yesterday, not today: ${name} will ${now} ${object}.`, `${name} ${then} ${object}.`]
    }),
    { reward: WORTH.words },
  ),
  plural: define(
    rowsOf(20, (roll, isHeldOut) => {
      const [[one, several], n] = [ownWord(roll, isHeldOut, NOUNS), 2 + roll(40)]
      return [`One ${one}, but ${n} of them:`, `${n} ${several}`]
    }),
  ),
}
