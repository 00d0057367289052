/**
 * `trainyard init`: a folder with a task of one's own that runs as it stands. Asks what it must; needs no service.
 */

import { mkdir, readdir, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { writeWhole } from '#base/write-whole.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { type ColumnMap, describeMap } from '#cli/input/column-map.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Prompts } from '#cli/terminal/prompts.js'
import { mapFlag } from '#cli/training/flags.js'
import { command, quoteWord } from '#contract/wire/command-words.js'
import { readPrompts } from '#plugins/rollout/prompt-file.js'
import { hasAnswer } from '#plugins/rollout/reward.js'
import { BUILT_IN, findBaseModel } from './base-model.js'
import { lookAt, MOST_ROWS } from './data.js'
import { filesOf, programFile, runLine } from './files.js'
import { runTask } from './run-task.js'
import { sampleRows } from './sample.js'
import { type AskedSource, LANGUAGES, SOURCES, type Source } from './task.js'

/** Stands for a file of prompts where there is none yet. */
const SAMPLE = 'sample'
/** Share of the prompts that is held out, and the fewest. */
const [HELD_OUT_SHARE, MIN_PROMPTS] = [0.2, 4]

const WORDS: Readonly<Record<AskedSource, string>> = {
  checker: 'a check: a program can tell a good answer from a bad one',
  examples: 'examples: prompts with good answers',
  judge: 'a judge: another model that grades answers',
  teacher: 'a stronger model that answers better',
}

export const init = defineCommand({
  path: ['init'],
  summary: 'Begin a task of your own: a folder that runs as it stands',
  details:
    'With a file of your data (CSV, TSV, Parquet, JSON or JSON Lines, plain or compressed with gzip) it says what it holds (labels, answers, conversations, preferences, labelled answers or prompts), and writes how that is trained and measured; --run runs it. Without one it asks what there is to learn from; the flags answer without a terminal. Writes a program or a shell script, rows split into train and held out, a reward with two tests, a package.json and a README. --prompts sample takes forty mails whose order number is asked for.',
  examples: [
    ['trainyard init reviews.csv --base-model trainyard/spark --run', 'from your file to a trained model'],
    [
      'trainyard init faq.csv faq --base-model trainyard/spark --map Frage=prompt,Antwort=completion',
      'columns with names of your own',
    ],
    ['trainyard init my-task', 'three questions, then a folder'],
    ['trainyard init orders --base-model trainyard/spark --have checker --prompts sample', 'without questions'],
  ],
  args: {
    source: argument.optional('a file of your data, or the folder to write; default my-task'),
    folder: argument.optional('of a file: the folder to write; default named after it'),
  },
  flags: {
    baseModel: flag.text(
      '--base-model <name>',
      `${BUILT_IN}, a folder, a GGUF file, one that is served, or organisation/name of a hub`,
    ),
    have: flag.choice(SOURCES)('--have <what>', 'what there is: examples, checker, judge or teacher'),
    prompts: flag.text('--prompts <file>', `rows with prompt or messages, a prompt per line, or ${SAMPLE}`),
    map: mapFlag,
    rows: flag.integer(MIN_PROMPTS)('--rows <n>', `of a file: rows that are drawn; default ${MOST_ROWS}`),
    as: flag.choice(LANGUAGES)('--as <program|shell>', 'what to write; default a program', { default: 'program' }),
    run: flag.switch('--run', 'run the program when it is written'),
  },
  exits: ['job_failed'],
  next: ['trainyard serve --data-dir <folder>/data', 'trainyard chat <model>'],
  async run(context) {
    const { output, args, flags, environment, signal } = context
    const file = await fileOf(args.source)
    if (flags.run && flags.as === 'shell') {
      throw new UsageError('conflicting_options', '--run runs programs, and --as shell writes a script')
    }
    if (file === null && flags.rows !== undefined) {
      throw new UsageError(
        'conflicting_options',
        '--rows says how many rows of a file are drawn, and no file is given',
        {
          param: '--rows',
          hint: 'trainyard init <file> --rows <n>',
        },
      )
    }
    if (file === null && args.folder !== undefined) {
      throw new UsageError('invalid_argument', `${args.source} is no file, so ${args.folder} is one argument too many`)
    }
    const named = file === null ? args.source : (args.folder ?? basename(file).replace(/(?:\.\w+)+$/, ''))
    const given = named === '-' ? undefined : named
    const folder = resolve(given ?? 'my-task')
    await assertEmpty(folder, file)
    const base = await findBaseModel(flags.baseModel ?? (await askBaseModel(context.prompts)), context)
    const { source, rows } = file === null ? await askWhatThereIs(context) : await rowsOfFile(context, file)
    if (rows.length < MIN_PROMPTS) {
      throw new UsageError(
        'too_few_prompts',
        `${file ?? flags.prompts} holds ${rows.length} prompts, ${MIN_PROMPTS} are the fewest`,
        {
          param: file === null ? '--prompts' : '<source>',
          hint: 'dozens are better: held-out ones are a fifth of them',
        },
      )
    }
    const hasAnswers = rows.every(hasAnswer)
    if (source === 'examples' && !hasAnswers) {
      throw new UsageError('no_answers', `examples need an answer in each row of ${flags.prompts}`, {
        param: '--have',
        hint: 'add "answer" to every row, or choose teacher or checker',
      })
    }
    const name = basename(folder).replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    const { training, heldOut } = split(rows)
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
    const isTypeScript = major > 22 || (major === 22 && minor >= 18)
    const task = { name, baseModel: base, source, language: flags.as, training, heldOut, hasAnswers, isTypeScript }
    const files = filesOf(task)
    await writeFiles(folder, files)
    const counts = { training: training.length, held_out: heldOut.length, files: [...files.keys()] }
    output.result(
      { folder, ...task, base_model: base.name, ...counts },
      `Wrote ${counts.files.join(', ')} to ${folder}: ${training.length} ${source === 'checker' ? 'prompts' : 'rows'} to train on, ${heldOut.length} held out`,
      [folder],
    )
    const isProgram = flags.as === 'program'
    if (
      flags.run ||
      (isProgram && file !== null && context.prompts.canAsk && (await context.prompts.confirm('Run it now?', '--run')))
    ) {
      const key = base.server === undefined ? undefined : (await context.credential())?.key
      const keyed =
        key === undefined ? environment : { ...environment, TRAINYARD_URL: base.server, TRAINYARD_API_KEY: key }
      return runTask(folder, programFile(task), { environment: keyed, signal, isQuiet: output.mode !== 'human' })
    }
    output.hint(`cd ${quoteWord(given ?? 'my-task')} && ${isProgram ? 'npm install && ' : ''}${runLine(task)}`)
  },
})

/** The file that an argument names; null where it is a folder to write. */
async function fileOf(argument: string | undefined): Promise<string | null> {
  if (argument === undefined) return null
  if (argument === '-' || (await stat(argument).catch(() => null))?.isFile() === true) return argument
  if (!/\.(?:csv|tsv|tab|parquet|json|jsonl|ndjson|txt|gz)$/i.test(argument)) return null
  throw new UsageError('input_unreadable', `${argument} does not exist or cannot be read`, { param: '<source>' })
}

async function assertEmpty(folder: string, file: string | null): Promise<void> {
  const inside = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw new UsageError('file_unwritable', `${folder} is no folder`, {
      cause: error,
      hint: file === null ? undefined : command`name a folder: trainyard init ${file} my-task`,
    })
  })
  if (inside.length === 0) return
  throw new UsageError('folder_not_empty', `${folder} is not empty: it holds ${inside.slice(0, 3).join(', ')}`, {
    hint: 'name another folder',
  })
}

async function writeFiles(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
  } catch (cause) {
    throw new AppError('invalid_request', 'file_unwritable', `${folder} cannot be made`, { cause })
  }
  for (const [file, text] of files) await writeWhole(join(folder, file), text)
}

interface Material {
  readonly source: Source
  readonly rows: readonly JsonObject[]
}
type Asking = Pick<CommandContext, 'io' | 'output' | 'prompts'> & {
  readonly flags: {
    readonly have: AskedSource | undefined
    readonly prompts: string | undefined
    readonly map: ColumnMap | undefined
    readonly rows: number | undefined
  }
}

async function askWhatThereIs({ io, output, prompts, flags }: Asking): Promise<Material> {
  const source =
    flags.have ??
    (await prompts.select(
      'What do you have?',
      Object.entries(WORDS).map(([value, name]) => ({ value: value as AskedSource, name })),
      '--have',
    ))
  const place = flags.prompts ?? (await prompts.text(`Where are the prompts (a file, or ${SAMPLE})?`, '--prompts'))
  if (place === SAMPLE) return { source, rows: sampleRows() }
  const rows = await readPrompts(place, io, { map: flags.map, say: output.status })
  return { source, rows: rows.map(({ messages, row }) => toRow(messages as readonly JsonObject[], row)) }
}

/** Says what a file is, and asks for what its columns leave open. */
async function rowsOfFile(context: Asking, file: string): Promise<Material> {
  const { io, output, prompts, flags } = context
  const unused = flags.prompts === undefined ? null : '--prompts'
  if (unused !== null)
    throw new UsageError('conflicting_options', `${unused} and ${file} name the rows twice: give one`)
  const onRecognised = (map: ColumnMap): void => output.status(`Read ${describeMap(map)}; --map says otherwise`)
  const look = (map: ColumnMap | undefined) => lookAt(file, io, { most: flags.rows ?? MOST_ROWS, map, onRecognised })
  const found = await look(flags.map).catch(async (error: unknown) => {
    const columns = error instanceof AppError && error.code === 'unknown_columns' ? error.details?.['columns'] : null
    if (!Array.isArray(columns) || !prompts.canAsk) throw error
    const choices = columns.map((column) => ({ value: String(column), name: String(column) }))
    const asked = await prompts.select('Which column is what the model is asked?', choices, '--map')
    const others = choices.filter(({ value }) => value !== asked)
    const answered = await prompts.select('Which column is what it should answer?', others, '--map')
    return look(
      new Map([
        [asked, 'prompt'],
        [answered, 'completion'],
      ]),
    )
  })
  const { rows, total, says } = found
  const drawn = rows.length < total ? `, of which ${rows.length} are drawn (--rows says how many)` : ''
  output.status(`${file}: ${says}${drawn}`)
  const isFixed = found.source === 'preferences' || found.source === 'labelled'
  if (flags.have !== undefined && isFixed) {
    throw new UsageError('conflicting_options', `--have ${flags.have} is for prompts, and ${file} holds ${says}`, {
      param: '--have',
      hint: 'leave it out',
    })
  }
  const source = flags.have ?? found.source
  return source === 'conversations' ? { source, rows: rows.map(toConversation) } : { source, rows }
}

/** A prompt and its answer as the conversation that is learned. */
function toConversation({ prompt, messages, answer, ...others }: JsonObject): JsonObject {
  const asked = Array.isArray(messages) ? messages : [{ role: 'user', content: prompt ?? '' }]
  return { messages: [...asked, { role: 'assistant', content: answer ?? '' }], ...others }
}

async function askBaseModel(prompts: Prompts): Promise<string> {
  const name = await prompts.select(
    'Which base model?',
    [
      { value: BUILT_IN, name: 'trainyard/spark: small, built in, learns in seconds' },
      { value: '', name: 'another one' },
    ],
    '--base-model',
  )
  return name === '' ? await prompts.text('Its name:', '--base-model') : name
}

/** A row as the files have it: what is asked, and what came with it. */
function toRow(messages: readonly JsonObject[], row: JsonObject): JsonObject {
  const { prompt, messages: _, ...others } = row
  return typeof prompt === 'string' ? { prompt, ...others } : { messages: [...messages], ...others }
}

/** A fifth is held out, drawn by a fixed seed: the same file is split in the same way. */
function split(rows: readonly JsonObject[]): {
  readonly training: readonly JsonObject[]
  readonly heldOut: readonly JsonObject[]
} {
  const rng = createRng('trainyard init')
  const order = rows.map((row) => ({ row, key: rng.uniform() })).sort((a, b) => a.key - b.key)
  const count = Math.max(1, Math.round(HELD_OUT_SHARE * rows.length))
  return { heldOut: order.slice(0, count).map(({ row }) => row), training: order.slice(count).map(({ row }) => row) }
}
