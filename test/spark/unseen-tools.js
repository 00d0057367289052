/**
 * Scores a served model on calls of tools that no training data had, one to three arguments each:
 *
 *     node test/spark/unseen-tools.js --url http://127.0.0.1:8642 --model trainyard/spark [--api-key-file FILE]
 *
 * Each question names its arguments in words of its own. A call counts where name and arguments are right, once left to the model
 * (`auto`), once required (the grammar allows calls of the offered tools only). Two tools are offered, the other one drawn by a seed.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { createRng } from '../../dist/src/base/util/rng.js'

const { values } = parseArgs({
  options: { url: { type: 'string' }, model: { type: 'string' }, 'api-key-file': { type: 'string' } },
})
if (values.url === undefined || values.model === undefined) throw new Error('--url and --model are needed')
const keyFile = values['api-key-file']
const key = keyFile === undefined ? process.env.TRAINYARD_API_KEY : readFileSync(keyFile, 'utf8').trim()

const FRUITS = ['apples', 'pears', 'plums', 'lemons', 'melons']
const CITIES = ['Lisbon', 'Oslo', 'Cairo', 'Lima', 'Tokyo']
const COUNTS = [2, 3, 5, 7, 9]
const COLORS = ['red', 'green', 'blue', 'black', 'white']

/** Each with its arguments and how somebody asks for them. */
const TOOLS = [
  { name: 'get_price', about: 'The price of an item', use: (i) => [{ item: FRUITS[i] }, `What do ${FRUITS[i]} cost?`] },
  { name: 'find_hotel', about: 'Find a hotel', use: (i) => [{ city: CITIES[i] }, `I need a hotel in ${CITIES[i]}.`] },
  {
    name: 'set_color',
    about: 'Set the color of the lamp',
    use: (i) => [{ color: COLORS[i] }, `Make the lamp ${COLORS[i]}.`],
  },
  {
    name: 'order_fruit',
    about: 'Order some fruit',
    use: (i) => [{ item: FRUITS[i], count: COUNTS[i] }, `Order ${COUNTS[i]} ${FRUITS[i]}.`],
  },
  {
    name: 'book_flight',
    about: 'Book a flight',
    use: (i) => [
      { from: CITIES[i], to: CITIES[(i + 1) % 5] },
      `Book a flight from ${CITIES[i]} to ${CITIES[(i + 1) % 5]}.`,
    ],
  },
  {
    name: 'paint_wall',
    about: 'Paint walls of a house',
    use: (i) => [
      { city: CITIES[i], color: COLORS[i], count: COUNTS[i] },
      `Paint ${COUNTS[i]} walls ${COLORS[i]} at my house in ${CITIES[i]}.`,
    ],
  },
]

const typeOf = (value) => ({ type: typeof value === 'number' ? 'integer' : 'string' })
const definitionOf = ({ name, about, use }) => {
  const [example] = use(0)
  const properties = Object.fromEntries(Object.entries(example).map(([field, value]) => [field, typeOf(value)]))
  const parameters = { type: 'object', properties, required: Object.keys(properties) }
  return { type: 'function', function: { name, description: about, parameters } }
}

async function ask(request) {
  const response = await fetch(`${values.url.replace(/\/+$/, '')}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ model: values.model, temperature: 0, seed: 1, max_tokens: 160, ...request }),
  })
  if (!response.ok) throw new Error(`the server answered ${response.status}: ${(await response.text()).slice(0, 300)}`)
  return (await response.json()).choices[0].message
}

const rng = createRng(7n)
const rows = TOOLS.flatMap((tool) =>
  COUNTS.map((_, i) => ({ tool, i, other: TOOLS.filter((each) => each !== tool)[rng.integer(5)] })),
)
const same = (text, wanted) => {
  try {
    const given = JSON.parse(text)
    return Object.entries(wanted).every(
      ([name, value]) => String(given[name]).toLowerCase() === String(value).toLowerCase(),
    )
  } catch {
    return false
  }
}

const table = {}
for (const choice of ['auto', 'required']) {
  for (const { tool, i, other } of rows) {
    const [wanted, question] = tool.use(i)
    const tools = (i % 2 === 0 ? [tool, other] : [other, tool]).map(definitionOf)
    const message = await ask({ messages: [{ role: 'user', content: question }], tools, tool_choice: choice })
    const call = message.tool_calls?.[0]?.function
    const count = Object.keys(wanted).length
    const kind = `${choice}, ${count} argument${count === 1 ? '' : 's'}`
    table[kind] ??= { questions: 0, named: 0, right: 0, invented: 0 }
    const row = table[kind]
    row.questions++
    if (call?.name === tool.name) row.named++
    if (call?.name === tool.name && same(call.arguments, wanted)) row.right++
    if (call !== undefined && !tools.some((each) => each.function.name === call.name)) row.invented++
  }
}
console.table(table)
