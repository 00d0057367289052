/**
 * Scores a served model on the held-out rows of every ability:
 *
 *     node test/spark/evaluate.js --url http://127.0.0.1:8000 --model trainyard/spark [--api-key-file FILE] [--count 100]
 *       [--abilities spell,sort] [--concurrency 8] [--temperature 0] [--json FILE] [--show 2]
 *
 * Speaks the OpenAI chat API only, so any server will do. The key is read from a file or from `TRAINYARD_API_KEY`. `score` is
 * the mean of the scorers (with partial credit), `exact` the share of answers that score 1.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ABILITIES, abilityOf } from './abilities/index.js'
import { evaluateAbility } from './evaluation.js'

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    model: { type: 'string' },
    'api-key-file': { type: 'string' },
    abilities: { type: 'string' },
    count: { type: 'string', default: '100' },
    concurrency: { type: 'string', default: '8' },
    temperature: { type: 'string', default: '0' },
    json: { type: 'string' },
    show: { type: 'string', default: '0' },
  },
})
if (values.url === undefined || values.model === undefined) throw new Error('--url and --model are needed')
const keyFile = values['api-key-file']
const apiKey = keyFile === undefined ? process.env.TRAINYARD_API_KEY : readFileSync(keyFile, 'utf8').trim()
const endpoint = `${values.url.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1/chat/completions`

/** @param {object} request @returns {Promise<object>} the message of the first choice */
async function ask(request) {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    body: JSON.stringify({ model: values.model, temperature: Number(values.temperature), seed: 1, ...request }),
  })
  if (!response.ok) throw new Error(`${endpoint} answered ${response.status}: ${(await response.text()).slice(0, 300)}`)
  const completion = /** @type {{ choices: { message: object }[] }} */ (await response.json())
  return completion.choices[0].message
}

const chosen = values.abilities === undefined ? ABILITIES : values.abilities.split(',').map(abilityOf)
const results = []
for (const ability of chosen) {
  const options = { count: Number(values.count), concurrency: Number(values.concurrency), ask }
  const result = await evaluateAbility(ability, options)
  results.push(result)
  process.stderr.write(`${ability.name} ${result.score.toFixed(3)}\n`)
}

console.table(
  Object.fromEntries(
    results.map(({ ability, rows, score, exact, tasks }) => [
      ability,
      {
        rows,
        score: score.toFixed(3),
        exact: `${(100 * exact).toFixed(0)}%`,
        'by task': Object.entries(tasks)
          .map(([task, value]) => `${task} ${value.score.toFixed(2)}`)
          .join(', '),
      },
    ]),
  ),
)
for (const { ability, answers } of results) {
  for (const { question, wanted, given, score } of answers.slice(0, Number(values.show))) {
    console.log(`${ability} [${score.toFixed(2)}] ${question}\n  wanted: ${wanted}\n  given:  ${given}`)
  }
}
if (values.json !== undefined) {
  writeFileSync(
    values.json,
    `${JSON.stringify({ model: values.model, temperature: Number(values.temperature), results }, null, 2)}\n`,
  )
}
