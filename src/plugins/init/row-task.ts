/**
 * Programs of tasks that learn from rows as they are and are measured by held-out rows: preferences, labelled answers, and conversations
 * whose answers are too long to be compared. Text in, text out, as in `files.ts`.
 */
import { command } from '#contract/wire/command-words.js'
import { TARGET_OF } from '#contract/wire/training/row-forms/purposes.js'
import { opener, openLocal, type Source, type Task, talk, typed } from './task.js'

/** How a source is trained on, by the library and by the command line, and what is measured. */
const ROW_SOURCES = {
  preferences: { method: 'trainDpo', target: TARGET_OF.preference, options: { epochs: 3 }, flags: '--epochs 3' },
  labelled: {
    method: 'trainDpo',
    target: TARGET_OF.preference,
    options: { loss_type: 'kto', epochs: 3 },
    flags: '--loss-type kto --epochs 3',
  },
  conversations: { method: 'trainSft', target: TARGET_OF.conversation, options: {}, flags: '' },
} as const
type RowSource = keyof typeof ROW_SOURCES

export function isRowSource(source: Source): source is RowSource {
  return source in ROW_SOURCES
}

/** The program of a task that trains on rows. */
export function rowProgram(task: Task, source: RowSource, header: string): string {
  const { method, options } = ROW_SOURCES[source]
  const config = Object.keys(options).length === 0 ? '' : `config: ${JSON.stringify(options)}, `
  return `// ${header}
import { readFile } from 'node:fs/promises'
import { ${opener(task)}, TrainableModel } from 'trainyard/rl'

const rowsOf = async (name${typed(task, 'string')}) =>
  (await readFile(name, 'utf8')).trim().split('\\n').map((line) => JSON.parse(line))
const [training, heldOut] = [await rowsOf('train.jsonl'), await rowsOf('held-out.jsonl')]

${openLocal(task)}
const measured${typed(task, 'Record<string, number>[]')} = []
const { warnings } = await model.${method}(training, {
  validation: heldOut,
  ${config}onEvent: ({ data }${typed(task, '{ data: Record<string, number> }')}) => {
    if (typeof data['val/loss'] !== 'number') return
    measured.push(data)
    console.log(\`held-out loss: \${data['val/loss'].toFixed(3)}\`)
  },
})
for (const warning of warnings) console.log(warning)
const last = measured.at(-1) ?? {}
${sentence(task, source)}
await local.close()
`
}

function sentence(task: Task, source: RowSource): string {
  const next = `next: ${talk(task)}`
  if (source === 'preferences') {
    return `const share = last['val/rewards/accuracies'] ?? 0
// so much is left to chance with so few pairs
const chance = 1 / Math.sqrt(heldOut.length)
const verdict = share - chance > 0.5 ? 'Learned' : share > 0.5 ? 'Not sure that it learned' : 'Not learned'
console.log(\`\${verdict}: in \${Math.round(100 * share)}% of \${heldOut.length} held-out pairs the better answer gained more than the worse (50% is chance); ${next}\`)`
  }
  return `const first = measured[0] ?? {}
console.log(\`Trained on \${training.length} rows: held-out loss \${first['val/loss']?.toFixed(3)} at first, \${last['val/loss']?.toFixed(3)} at last; ${next}\`)`
}

/** The same for the shell. */
export function rowCommands({ name }: Task, source: RowSource): string {
  const { target, flags } = ROW_SOURCES[source]
  const line = command`trainyard train ${target} ${name} --file train.jsonl --validation-file held-out.jsonl --watch`
  return `${line}${flags === '' ? '' : ` ${flags}`}\n`
}
