/**
 * `trainyard init`: a folder with a task of one's own that runs as it stands. Asks three questions; needs no service.
 */

import { mkdir, readdir } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { writeWhole } from '#base/write-whole.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { filesOf, LANGUAGES, runLine, SOURCES, type Source } from '#cli/init/files.js'
import { sampleRows } from '#cli/init/sample.js'
import { readPrompts } from '#cli/rollout/prompt-file.js'
import { hasAnswer } from '#cli/rollout/reward.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Prompts } from '#cli/terminal/prompts.js'
import { quoteWord } from '#contract/wire/command-words.js'

/** Stands for a file of prompts where there is none yet. */
const SAMPLE = 'sample'
/** Share of the prompts that is held out, and the fewest. */
const [HELD_OUT_SHARE, MIN_PROMPTS] = [0.2, 4]

const WORDS: Readonly<Record<Source, string>> = {
  checker: 'a check: a program can tell a good answer from a bad one',
  examples: 'examples: prompts with good answers',
  judge: 'a judge: another model that grades answers',
  teacher: 'a stronger model that answers better',
}

export const init = defineCommand({
  path: ['init'],
  summary: 'Begin a task of your own: a folder that runs as it stands',
  details:
    'Asks for the base model, what there is to learn from, and the prompts; the flags answer without a terminal. Writes a program or a shell script, prompts split into train and held out, a reward with two tests, and a README. --prompts sample takes forty mails whose order number is asked for.',
  examples: [
    ['trainyard init my-task', 'three questions, then a folder'],
    ['trainyard init orders --base-model trainyard/spark --have checker --prompts sample', 'without questions'],
    ['trainyard init faq --have examples --prompts faq.jsonl --as shell', 'as a script for the shell'],
  ],
  args: { folder: argument.optional('folder to write, new or empty; default my-task') },
  flags: {
    baseModel: flag.text('--base-model <name>', 'weights to start from'),
    have: flag.choice(SOURCES)('--have <what>', 'what there is: examples, checker, judge or teacher'),
    prompts: flag.text('--prompts <file>', `JSON Lines with prompt or messages, a prompt per line, or ${SAMPLE}`),
    as: flag.choice(LANGUAGES)('--as <program|shell>', 'what to write; default a program', { default: 'program' }),
  },
  next: ['trainyard serve --data-dir <folder>/data', 'trainyard chat <model>'],
  async run(context) {
    const { io, output, prompts, args, flags } = context
    const folder = resolve(args.folder ?? 'my-task')
    const inside = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw new UsageError('file_unwritable', `${folder} is no folder`, { cause: error })
    })
    if (inside.length > 0) {
      throw new UsageError('folder_not_empty', `${folder} is not empty: it holds ${inside.slice(0, 3).join(', ')}`, {
        hint: 'name another folder',
      })
    }
    const baseModel = flags.baseModel ?? (await askBaseModel(prompts))
    const source =
      flags.have ??
      (await prompts.select(
        'What do you have?',
        Object.entries(WORDS).map(([value, name]) => ({ value: value as Source, name })),
        '--have',
      ))
    const place = flags.prompts ?? (await prompts.text(`Where are the prompts (a file, or ${SAMPLE})?`, '--prompts'))
    const rows =
      place === SAMPLE
        ? sampleRows()
        : (await readPrompts(place, io)).map(({ messages, row }) => toRow(messages as readonly JsonObject[], row))
    if (rows.length < MIN_PROMPTS) {
      throw new UsageError('too_few_prompts', `${place} holds ${rows.length} prompts, ${MIN_PROMPTS} are the fewest`, {
        param: '--prompts',
        hint: 'dozens are better: held-out ones are a fifth of them',
      })
    }
    const hasAnswers = rows.every(hasAnswer)
    if (source === 'examples' && !hasAnswers) {
      throw new UsageError('no_answers', `examples need an answer in each row of ${place}`, {
        param: '--have',
        hint: 'add "answer" to every row, or choose teacher or checker',
      })
    }
    const name = basename(folder).replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    const { training, heldOut } = split(rows)
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
    const isTypeScript = major > 22 || (major === 22 && minor >= 18)
    const task = { name, baseModel, source, language: flags.as, training, heldOut, hasAnswers, isTypeScript }
    const files = filesOf(task)
    try {
      await mkdir(folder, { recursive: true })
    } catch (cause) {
      throw new AppError('invalid_request', 'file_unwritable', `${folder} cannot be made`, { cause })
    }
    for (const [file, text] of files) await writeWhole(join(folder, file), text)
    output.result(
      { folder, ...task, training: training.length, held_out: heldOut.length, files: [...files.keys()] },
      `Wrote ${[...files.keys()].join(', ')} to ${folder}: ${training.length} prompts to train on, ${heldOut.length} held out`,
      [folder],
    )
    const install = flags.as === 'program' ? 'npm install trainyard && ' : ''
    output.hint(`cd ${quoteWord(args.folder ?? 'my-task')} && ${install}${runLine(task)}`)
  },
})

async function askBaseModel(prompts: Prompts): Promise<string> {
  const name = await prompts.select(
    'Which base model?',
    [
      { value: 'trainyard/spark', name: 'trainyard/spark: small, built in, learns in seconds' },
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
