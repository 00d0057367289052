/**
 * Five tasks as somebody brings them: prompts with the answer that is wanted, and what an answer is worth. For `run.js`.
 *
 * Held-out prompts are never trained on, and no sentence, name or number of theirs is. Nothing here is made easy for a model: the built-in
 * one knows sentiment and JSON in other words and another form, and no remainders.
 */

const THINGS = ['soup', 'hotel', 'film', 'train', 'phone', 'book', 'concert', 'garden', 'teacher', 'coffee']
const SAID = {
  good: [
    'was wonderful',
    'made me happy',
    'is the best I know',
    'was a pleasure',
    'is great',
    'was excellent',
    'is lovely',
    'was very good',
  ],
  bad: [
    'was awful',
    'made me angry',
    'is the worst I know',
    'was a waste of time',
    'is terrible',
    'was horrible',
    'is ugly',
    'was very bad',
  ],
}
const NAMES = [
  'Anna',
  'Tom',
  'Mia',
  'Omar',
  'Lena',
  'Ravi',
  'Nina',
  'Paul',
  'Sara',
  'Ivan',
  'Emma',
  'Noah',
  'Ella',
  'Luis',
  'Rosa',
  'Karl',
]
const CITIES = [
  'Rome',
  'Oslo',
  'Lima',
  'Cairo',
  'Paris',
  'Delhi',
  'Berlin',
  'Madrid',
  'London',
  'Tokyo',
  'Vienna',
  'Boston',
]

/** Sentences of eight things to train on and of the two others to hold out, both labels in turn. */
function sentences() {
  const all = THINGS.flatMap((thing, t) =>
    SAID.good.flatMap((_, i) => [
      { text: `The ${thing} ${SAID.good[(i + t) % 8]}.`, label: 'good', isHeldOut: t >= 8 },
      { text: `The ${thing} ${SAID.bad[(i + t) % 8]}.`, label: 'bad', isHeldOut: t >= 8 },
    ]),
  )
  return { training: all.filter((each) => !each.isHeldOut), heldOut: all.filter((each) => each.isHeldOut) }
}

function both(rows, toRow) {
  return { training: rows.training.map(toRow), heldOut: rows.heldOut.map(toRow) }
}

/** Labels of somebody's own. */
const labels = () =>
  both(sentences(), ({ text, label }) => ({ prompt: `Review: ${text} Label:`, answer: label === 'good' ? 'A1' : 'B2' }))

const words = () =>
  both(sentences(), ({ text, label }) => ({
    prompt: `${text} Is this positive or negative? Answer with one word.`,
    answer: label === 'good' ? 'positive' : 'negative',
  }))

/** A customer's message as an object with the keys of somebody's database. */
function json() {
  const rows = Array.from({ length: 80 }, (_, i) => {
    const [name, city, amount] = [NAMES[(i * 5) % 16], CITIES[(i * 7) % 12], 2 + ((i * 11) % 38)]
    return {
      prompt: `${name} from ${city} wants ${amount} chairs. As JSON with the keys who, where and n:`,
      answer: JSON.stringify({ who: name, where: city, n: amount }),
    }
  })
  return { training: rows.filter((_, i) => i % 4 !== 3), heldOut: rows.filter((_, i) => i % 4 === 3) }
}

function remainders() {
  const rows = Array.from({ length: 92 }, (_, i) => ({
    prompt: `What is the remainder of ${8 + i} divided by 7?`,
    answer: String((8 + i) % 7),
  }))
  return { training: rows.filter((_, i) => i % 4 !== 3), heldOut: rows.filter((_, i) => i % 4 === 3) }
}

const SPARK = 'trainyard/spark'
export const SMOLLM = 'SmolLM2-135M-Instruct'

/**
 * `reward` is what a newcomer would say: `exact`, or the text of a module. `examples` is how many right answers there are to show where
 * the product asks for some.
 */
export const TASKS = {
  labels: { baseModel: SPARK, ...labels(), reward: 'exact', maxTokens: 16, examples: 128 },
  json: { baseModel: SPARK, ...json(), reward: jsonReward(), maxTokens: 48, examples: 60 },
  remainder: { baseModel: SPARK, ...remainders(), reward: 'exact', maxTokens: 16, examples: 69 },
  'word-smollm': { baseModel: SMOLLM, ...words(), reward: 'exact', maxTokens: 8, examples: 32 },
  'json-smollm': { baseModel: SMOLLM, ...json(), reward: jsonReward(), maxTokens: 48, examples: 32 },
}

/** 1 for the object alone, a part for each right key. */
function jsonReward() {
  return `export function reward(answer, row) {
  const wanted = JSON.parse(row.answer)
  let given
  try {
    given = JSON.parse(answer)
  } catch {
    return 0
  }
  if (given === null || typeof given !== 'object') return 0
  const keys = Object.keys(wanted)
  const right = keys.filter((key) => given[key] === wanted[key]).length
  return Object.keys(given).every((key) => keys.includes(key)) ? right / keys.length : (0.5 * right) / keys.length
}
`
}
