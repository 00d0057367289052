/**
 * `trainyard env train`: gather, train, measure, and again; a run that was stopped goes on from its folder.
 */
import type { JsonObject } from '#base/util/json.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { readJsonObject } from '#cli/input/input-file.js'
import { findModel } from '#cli/names/model-reference.js'
import { renderChart } from '#cli/terminal/chart.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import { parseTrainedModel, trainedModel } from '#cli/training/flags.js'
import { givenOptions, optionFlags } from '#cli/training/option-flags.js'
import { command } from '#contract/wire/command-words.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { TrainableModel } from '#plugins/rl-library/model.js'
import { runTraining } from '../run.js'
import { openRunFolder } from '../run-folder.js'
import { openTasks } from '../tasks.js'
import { episodeFlags, identityOf, judgeByFlags, openByFlags, openFlags, samplingOf } from './flags.js'

const DEFAULTS = { steps: 10, tasksPerStep: 8, count: 8, evalEvery: 5, evalTasks: 32, samples: 1 }

export const trainEnv = defineCommand({
  path: ['env', 'train'],
  summary: 'Train a model in an environment',
  details:
    'A step plays some tasks, a group of episodes each, and trains on them as an ordinary job. Held-out tasks are measured before the first step, on the way and after the last. What it has done stands in the folder --out: the same command goes on from there, also after a kill.',
  examples: [
    [
      'trainyard env train reasoning-gym:letter_counting my-model --set max_words=3',
      'tasks with a scorer of their own',
    ],
    [
      'trainyard env train openenv:http://127.0.0.1:8000 my-model --steps 20 -n 8 --out run',
      'a server of the OpenEnv kind',
    ],
  ],
  namespace: ['project', 'entity'],
  args: { address: argument.required('address of an environment: trainyard env list'), model: trainedModel },
  flags: {
    ...openFlags,
    ...episodeFlags,
    ...optionFlags('rl'),
    config: flag.text('--config <file>', 'JSON object of options of the jobs', { isAdvanced: true }),
    steps: flag.integer(1, 100_000)('--steps <n>', `steps in all; default ${DEFAULTS.steps}`, {
      default: DEFAULTS.steps,
    }),
    tasksPerStep: flag.integer(1, 10_000)('--tasks-per-step <n>', `tasks of a step; default ${DEFAULTS.tasksPerStep}`, {
      default: DEFAULTS.tasksPerStep,
    }),
    count: flag.integer(2, 128)('-n <count>', `episodes per task, 2 to 128; default ${DEFAULTS.count}`, {
      default: DEFAULTS.count,
    }),
    evalEvery: flag.integer(0, 100_000)(
      '--eval-every <n>',
      `steps between measurements, 0 for first and last; default ${DEFAULTS.evalEvery}`,
      {
        default: DEFAULTS.evalEvery,
      },
    ),
    evalTasks: flag.integer(1, 10_000)('--eval-tasks <n>', `held-out tasks at most; default ${DEFAULTS.evalTasks}`, {
      default: DEFAULTS.evalTasks,
    }),
    samples: flag.integer(1, 128)('--samples <count>', `episodes per held-out task; default ${DEFAULTS.samples}`, {
      default: DEFAULTS.samples,
      isAdvanced: true,
    }),
    out: flag.text('--out <folder>', 'where the run stands; default env-<model>'),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard env eval <address> <model>', 'trainyard models metrics <model>'],
  async prepare(context) {
    const { flags, io } = context
    const open: JsonObject = flags.config === undefined ? {} : await readJsonObject(flags.config, io)
    const options = givenOptions('rl', flags, open)
    return { judgeOf: await judgeByFlags(context, flags), config: { ...open, ...options } }
  },
  async run(context) {
    const { args, flags, io, output, clock, signal, prepared } = context
    const client = await context.connect()
    const model = await findModel(parseTrainedModel(args.model), { ...context, client })
    const trained = await new TrainableModel(client, {
      name: model.name,
      baseModel: model.base_model,
      project: model.project,
    }).register()
    const source = await openByFlags(context, args.address, flags)
    const path = flags.out ?? `env-${model.name}`
    const progress = startProgress(io, output.mode === 'human', 'opening the environment')
    try {
      const description = await source.describe(signal)
      const judging = prepared.judgeOf(description.rewardRange)
      const { name, version, digest } = description
      const folder = await openRunFolder(path, {
        address: args.address,
        environment: { name, version, digest },
        model: model.id,
        options: {
          ...identityOf(flags),
          judged_by: judging.judgedBy,
          tasks_per_step: flags.tasksPerStep,
          n: flags.count,
          eval_tasks: flags.evalTasks,
          samples: flags.samples,
          config: prepared.config,
        },
      })
      if (folder.isResumed)
        output.status(`goes on with the run in ${path}, ${plural(folder.lines.filter(isTrained).length, 'step')} done`)
      const feed = await openTasks(source, description, { seed: flags.seed, measured: flags.evalTasks, signal })
      const lines = await runTraining({
        ...{ source, description, ...judging, seed: flags.seed, signal, clock, client, trained, feed, folder },
        sampling: samplingOf(flags),
        steps: flags.steps,
        tasksPerStep: flags.tasksPerStep,
        count: flags.count,
        evalEvery: flags.evalEvery,
        samples: flags.samples,
        concurrency: flags.concurrency,
        retries: flags.retries,
        config: prepared.config,
        episodeTimeoutMs: flags.episodeTimeout,
        onWarning: (warning) => output.warning(warning),
        onProgress: (sentence) => progress.update(sentence),
        onLine: (line) => output.event(line, sayLine(line)),
      })
      progress.stop()
      report(context, lines, { model: args.model, modelStep: trained.step, path, range: judging.rewardRange })
      output.hint(command`trainyard env eval ${args.address} ${args.model}`)
    } finally {
      progress.stop()
      await source.close()
    }
  },
})

/** The curve of what was measured. */
function report(
  { io, output }: Pick<CommandContext, 'io' | 'output'>,
  lines: readonly JsonObject[],
  run: {
    readonly model: string
    readonly modelStep: number
    readonly path: string
    readonly range: RewardRange | null
  },
): void {
  const points = lines.flatMap((line) =>
    line['object'] === 'measured' ? [{ step: Number(line['step']), value: Number(line['reward']) }] : [],
  )
  const chart = renderChart(points, {
    width: io.stdout.width,
    isUnicode: io.stdout.isUnicode,
    ...(run.range === null ? {} : { range: run.range }),
  })
  const said = `Held-out reward ${points.map(({ value }) => formatNumber(value)).join(', ')} after ${plural(lines.filter(isTrained).length, 'step')}; the run is in ${run.path}`
  output.result(
    { object: 'environment_training', model: run.model, model_step: run.modelStep, points, folder: run.path },
    output.mode === 'human' ? `${chart}\n${said}` : said,
    [String(run.modelStep)],
  )
}

function isTrained(line: JsonObject): boolean {
  return line['object'] === 'trained'
}

function sayLine(line: JsonObject): string {
  const reward = formatNumber(Number(line['reward']))
  if (line['object'] === 'measured')
    return `after step ${line['step']}: held-out reward ${reward} over ${line['tasks']} tasks`
  const trained = line['job'] === null ? ', nothing to train on' : ''
  const failed = Object.entries(line).flatMap(([name, value]) =>
    name.startsWith('env/failed_') ? [`${value} ${name.slice(11)}`] : [],
  )
  return `step ${line['step']}: reward ${reward}, ${line['trained_groups']} of ${line['groups']} groups differ${trained}${failed.length === 0 ? '' : `, failed: ${failed.join(', ')}`}`
}
