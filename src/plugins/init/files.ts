/**
 * The files of a task that `trainyard init` writes: programs as text, a part for each way of learning. Knows no disk.
 *
 * What is written must run as it stands, in the language it is named for, on Node 20 (as `.mjs`) and on versions that run TypeScript.
 */

import type { JsonObject } from '#base/util/json.js'
import { packageVersion } from '#base/util/package-root.js'
import { quoteWord } from '#contract/wire/command-words.js'
import { isRowSource, rowCommands, rowProgram } from './row-task.js'
import { opener, openLocal, SET_KEY, type Source, type Task, talk, typed } from './task.js'

/** Longest answer, tokens: of rows without answers a sentence or two. */
const maxTokens = ({ hasAnswers }: Task): number => (hasAnswers ? 16 : 64)
/** Rewards raise what is sometimes right already; what is shown needs fewer jobs after it. */
const jobsOf = ({ source }: Task): number => (isShown(source) ? 2 : 6)
const isShown = (source: Source): boolean => source === 'examples' || source === 'teacher'

/** Every file by its name. */
export function filesOf(task: Task): ReadonlyMap<string, string> {
  const lines = (rows: readonly JsonObject[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  const extension = extensionOf(task)
  return new Map([
    ['train.jsonl', lines(task.training)],
    ['held-out.jsonl', lines(task.heldOut)],
    ...(isRowSource(task.source)
      ? []
      : ([
          [`reward.${extension}`, rewardFile(task)],
          [`reward.test.${extension}`, rewardTest(task)],
        ] as const)),
    ...(task.source === 'teacher' ? [[`teacher.${extension}`, teacherFile(task)] as const] : []),
    task.language === 'shell' ? ['task.sh', shellScript(task)] : [`task.${extension}`, program(task)],
    ['package.json', packageFile(task)],
    ['README.md', readme(task)],
  ])
}

/** How the task is started. */
export function runLine(task: Task): string {
  return task.language === 'shell' ? 'sh task.sh' : `node ${programFile(task)}`
}

export function programFile(task: Task): string {
  return `task.${extensionOf(task)}`
}

function packageFile(task: Task): string {
  const tests = isRowSource(task.source) ? {} : { test: 'node --test' }
  const content = {
    name: task.name.toLowerCase(),
    private: true,
    type: 'module',
    scripts: { start: runLine(task), ...tests },
    dependencies: { trainyard: `^${packageVersion()}` },
  }
  return `${JSON.stringify(content, null, 2)}\n`
}

function extensionOf({ isTypeScript }: Task): string {
  return isTypeScript ? 'ts' : 'mjs'
}

function rewardFile(task: Task): string {
  const parameters = `(answer${typed(task, 'string')}, row${typed(task, 'Record<string, unknown>')})${typed(task, 'number')}`
  const check = task.hasAnswers
    ? `/** 1 for the right answer alone, 0.4 where it is somewhere inside, else 0: steps between nothing and all show the way. */
export function check${parameters} {
  const wanted = String(row.answer).trim()
  if (answer.trim() === wanted) return 1
  return answer.includes(wanted) ? 0.4 : 0
}
`
    : `/** Write here what a good answer is, from 0 to 1. This one asks for few words: 1 up to eight, less the more there are. */
export function check${parameters} {
  void row
  const words = answer.trim().split(/\\s+/).filter((word) => word !== '').length
  return words === 0 ? 0 : Math.min(1, 8 / words)
}
`
  const range = `/** What it can be at least and at most. */\nexport const range${typed(task, '[number, number]')} = [0, 1]\n`
  if (task.source !== 'judge') return `${check}\nexport const reward = check\n${range}`
  return `import { env } from 'node:process'

${check}
const { JUDGE_URL, JUDGE_MODEL = 'gpt-5-mini', JUDGE_KEY = '' } = env
const RUBRIC = 'Grade the answer from 0 (useless) to 10 (exactly what was asked, nothing else). Reply with the number alone.'

/** What a judge says: any model behind an OpenAI-compatible address, JUDGE_URL. Without one \`check\` above decides. */
export async function reward(answer${typed(task, 'string')}, row${typed(task, 'Record<string, unknown>')}) {
  if (JUDGE_URL === undefined) return check(answer, row)
  const response = await fetch(\`\${JUDGE_URL}/chat/completions\`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: \`Bearer \${JUDGE_KEY}\` },
    body: JSON.stringify({
      model: JUDGE_MODEL,
      messages: [{ role: 'user', content: \`\${RUBRIC}\\n\\nAsked: \${JSON.stringify(row)}\\n\\nAnswer: \${answer}\` }],
    }),
  })
  if (!response.ok) throw new Error(\`the judge answers \${response.status}: \${await response.text()}\`)
  const { choices } = await response.json()
  return Math.min(10, Math.max(0, Number.parseFloat(choices[0].message.content) || 0)) / 10
}

${range}`
}

function rewardTest(task: Task): string {
  const [first] = task.training
  const row = JSON.stringify(task.hasAnswers ? { answer: first?.['answer'] ?? '' } : {})
  const [right, wrong] = task.hasAnswers
    ? [JSON.stringify(String(first?.['answer'] ?? '')), JSON.stringify('I do not know.')]
    : [JSON.stringify('Short and good.'), JSON.stringify('')]
  return `// node --test
import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { check } from './reward.${extensionOf(task)}'

test('a good answer is worth 1', () => equal(check(${right}, ${row}), 1))
test('a bad answer is worth 0', () => equal(check(${wrong}, ${row}), 0))
`
}

function teacherFile(task: Task): string {
  return `// Writes examples.jsonl: answers of a stronger model to the prompts of train.jsonl, behind any OpenAI-compatible address.
// Without TEACHER_URL each row's own "answer" is taken.
import { readFile, writeFile } from 'node:fs/promises'
import { argv, env } from 'node:process'

const { TEACHER_URL, TEACHER_MODEL = 'gpt-5-mini', TEACHER_KEY = '' } = env

async function answerOf(row${typed(task, 'Record<string, unknown>')})${typed(task, 'Promise<string>')} {
  if (TEACHER_URL === undefined) {
    if (row.answer === undefined) throw new Error('set TEACHER_URL: the rows of train.jsonl have no "answer"')
    return String(row.answer)
  }
  const response = await fetch(\`\${TEACHER_URL}/chat/completions\`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: \`Bearer \${TEACHER_KEY}\` },
    body: JSON.stringify({ model: TEACHER_MODEL, messages: row.messages ?? [{ role: 'user', content: row.prompt }] }),
  })
  if (!response.ok) throw new Error(\`the teacher answers \${response.status}: \${await response.text()}\`)
  return (await response.json()).choices[0].message.content.trim()
}

export async function writeExamples() {
  const rows = (await readFile('train.jsonl', 'utf8')).trim().split('\\n').map((line) => JSON.parse(line))
  const lines = []
  for (const row of rows) {
    const asked = row.messages ?? [{ role: 'user', content: row.prompt }]
    lines.push(JSON.stringify({ messages: [...asked, { role: 'assistant', content: await answerOf(row) }] }))
  }
  await writeFile('examples.jsonl', lines.join('\\n') + '\\n')
}

if (argv[1]?.endsWith('teacher.${extensionOf(task)}')) await writeExamples()
`
}

function program(task: Task): string {
  if (isRowSource(task.source)) return rowProgram(task, task.source, `${describe(task)} Run it: ${runLine(task)}`)
  const extension = extensionOf(task)
  const row = typed(task, 'Record<string, any>')
  const shown = isShown(task.source)
  const next = talk(task)
  const examples =
    task.source === 'teacher'
      ? `await writeExamples()
const examples = await rowsOf('examples.jsonl')`
      : `const examples = training.map((row) => ({
  messages: [...messagesOf(row), { role: 'assistant', content: String(row.answer) }],
}))`
  return `// ${describe(task)} Run it: ${runLine(task)}
import { readFile } from 'node:fs/promises'
import { ${['gather', 'group', opener(task)].toSorted().join(', ')}, TrainableModel } from 'trainyard/rl'
import { range, reward } from './reward.${extension}'
${task.source === 'teacher' ? `import { writeExamples } from './teacher.${extension}'\n` : ''}
const rowsOf = async (name${typed(task, 'string')}) =>
  (await readFile(name, 'utf8')).trim().split('\\n').map((line) => JSON.parse(line))
const messagesOf = (row${row}) => row.messages ?? [{ role: 'user', content: row.prompt }]
const [training, heldOut] = [await rowsOf('train.jsonl'), await rowsOf('held-out.jsonl')]

${openLocal(task)}

/** Answers to each row, with their rewards. */
const ask = (rows${typed(task, 'Record<string, any>[]')}, count${typed(task, 'number')}) =>
  gather(
    rows.map((row) =>
      group(count, async () => {
        const trajectory = model.trajectory(messagesOf(row))
        const { content } = await trajectory.ask({ maxTokens: ${maxTokens(task)} })
        trajectory.reward = await reward(content, row)
        return trajectory
      }, { rewardRange: range }),
    ),
  )
const rewards${typed(task, 'number[]')} = []
const measure = async () => {
  rewards.push((await model.evaluate(await ask(heldOut, 4))).metrics['val/reward'] ?? 0)
  return rewards.at(-1)?.toFixed(2)
}

console.log(\`held-out reward before: \${await measure()}\`)
${
  shown
    ? `${examples}
await model.trainSft(examples)
console.log(\`held-out reward after examples: \${await measure()}\`)
`
    : ''
}for (let job = 1; job <= ${jobsOf(task)}; job += 1) {
  const batch = Array.from({ length: 16 }, (_, i) => training[(16 * (job - 1) + i) % training.length])
  // result.warnings says why, where it does not learn
  const result = await model.train(await ask(batch, 8))
  console.log(\`job \${job}: reward \${result.reward.toFixed(2)}, held-out reward \${await measure()}\`)
}
await model.keepBest()
const [before, best] = [rewards[0] ?? 0, Math.max(...rewards)]
// so much is left to chance with so few prompts
const isSure = best - before > 1 / Math.sqrt(heldOut.length)
console.log(\`\${isSure ? 'Learned' : best > before ? 'Not sure that it learned' : 'Not learned yet'}: held-out reward \${before.toFixed(2)} before, \${best.toFixed(2)} at best, of 1; next: ${next}\`)
await local.close()
`
}

function shellScript(task: Task): string {
  const { source } = task
  const [name, baseModel] = [quoteWord(task.name), quoteWord(task.baseModel.name)]
  const { path, isHub, server } = task.baseModel
  const served = path === null ? '' : ` --base-model ${quoteWord(`${task.baseModel.name}=${path}`)}`
  const reward = `./reward.${extensionOf(task)}`
  const flags = `--reward ${reward} --max-tokens ${maxTokens(task)}`
  const shown = {
    teacher: `# trainyard train distill asks a teacher, too, and goes on where it was stopped
node teacher.${extensionOf(task)}\n`,
    examples: `node -e '
const rows = require("fs").readFileSync("train.jsonl", "utf8").trim().split("\\n").map((line) => JSON.parse(line))
for (const row of rows) {
  const asked = row.messages ?? [{ role: "user", content: row.prompt }]
  console.log(JSON.stringify({ messages: [...asked, { role: "assistant", content: String(row.answer) }] }))
}' > examples.jsonl
`,
  }
  const examples = source === 'examples' || source === 'teacher' ? shown[source] : null
  return `# ${describe(task)} Run it: sh task.sh
set -e
command -v trainyard > /dev/null || trainyard() { npx --yes trainyard "$@"; }
${
  server === undefined
    ? ''
    : `[ -n "$TRAINYARD_URL" ] || TRAINYARD_URL=${quoteWord(server)}
export TRAINYARD_URL
`
}if [ -z "$TRAINYARD_URL" ]; then
  trainyard serve --port 8656 --data-dir ./data${served} > serve.log 2>&1 &
  trap "kill $!" EXIT
  export TRAINYARD_URL=http://127.0.0.1:8656
  until trainyard system-check --server-only > check.log 2>&1; do kill -0 $!; sleep 1; done
fi
${isHub ? `trainyard base-models list --quiet | grep -qx ${baseModel} || trainyard base-models add ${baseModel}\n` : ''}trainyard models create ${name} --base-model ${baseModel} --if-not-exists
${isRowSource(source) ? rowCommands(task, source) : measuredCommands()}`

  function measuredCommands(): string {
    return `trainyard eval ${name} --prompts held-out.jsonl -n 4 ${flags} --show 2
${
  examples === null
    ? ''
    : `${examples}trainyard train sft ${name} --file examples.jsonl --watch
trainyard eval ${name} --prompts held-out.jsonl -n 4 ${flags}
`
}for job in $(seq ${jobsOf(task)}); do
  trainyard rollout ${name} --prompts train.jsonl -n 8 ${flags} |
    trainyard train rl ${name} --file - --allow-empty --watch
done
trainyard eval ${name} --prompts held-out.jsonl -n 4 ${flags} --show 2
trainyard jobs chart ${name}
`
  }
}

function describe({ name, baseModel, source }: Task): string {
  const ways: Readonly<Record<Source, string>> = {
    examples: 'shows it good answers, then rewards its own',
    checker: 'rewards the answers that a check finds good',
    judge: 'rewards the answers that a judge finds good',
    teacher: 'shows it answers of a stronger model, then rewards its own',
    preferences: 'prefers the better of two answers',
    labelled: 'makes good answers likelier and bad ones less',
    conversations: 'shows it conversations until held-out ones get no better',
  }
  return `Teaches ${name}, from ${baseModel.name}: ${ways[source]}.`
}

function readme(task: Task): string {
  const extension = extensionOf(task)
  const install = task.language === 'program' ? 'npm install && ' : ''
  return `# ${task.name}

${describe(task)}

- \`${install}${runLine(task)}\` measures, trains, and measures again.
- \`train.jsonl\`, \`held-out.jsonl\`: a prompt a line; what is measured is never trained on. Put yours there.
${
  isRowSource(task.source)
    ? ''
    : `- \`reward.${extension}\`: what an answer is worth. \`node --test\` runs its two tests.
`
}- Where it does not learn, each job says why and what to do next.
${
  task.baseModel.server === undefined
    ? `- \`./data\` holds the model: \`trainyard serve --data-dir ./data\`, then \`trainyard chat ${task.name}\`.`
    : `- ${task.baseModel.server} holds the model: \`trainyard chat ${task.name}\`. The program needs its key: \`${SET_KEY}\` on its machine.`
}
`
}
