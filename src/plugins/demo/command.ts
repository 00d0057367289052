/**
 * `trainyard demo`: teaches a small model something in about a minute, through the API and before the reader's eyes.
 */

import { randomSeed } from '#base/util/rng.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { shortName } from '#cli/names/model-reference.js'
import { InterruptedError } from '#cli/terminal/errors.js'
import { requireCompleted } from '#cli/views/watch.js'
import { command } from '#contract/wire/command-words.js'
import type { Model } from '#contract/wire/models.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { borrowServer } from './local-server.js'
import { createDemoModel } from './model.js'
import { createDemoPrinter } from './output.js'
import { runDemo } from './run.js'
import type { DemoTask } from './task.js'
import { DEFAULT_TASK, demoTasks } from './tasks.js'

export const demo = defineCommand({
  path: ['demo'],
  summary: 'Teach a small model something in a minute',
  details: `Creates a model, measures it on held-out prompts, trains it and measures again. A server is started for it unless one is chosen or runs here, or --data-dir asks for one; the model stays. Tasks: ${demoTasks.map((task) => `${task.name} (${task.teaches})`).join('; ')}.`,
  examples: [
    ['trainyard demo', 'reinforcement learning on the default task'],
    ['trainyard demo --sft --task brief', 'fine-tuning on another task'],
    ['trainyard demo --seed 1 --json > demo.jsonl', 'repeatable, one JSON line per event'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {
    sft: flag.switch('--sft', 'fine-tune on example conversations instead of learning from rewards'),
    task: flag.choice(demoTasks.map((task) => task.name))('--task <name>', `what to teach; default ${DEFAULT_TASK}`, {
      default: DEFAULT_TASK,
    }),
    steps: flag.integer(1, 1000)('--steps <n>', 'most training jobs; default 40, for --sft 6'),
    maxSeconds: flag.number(1)(
      '--max-seconds <n>',
      'begin no step that would end later; default 70, on a busy machine up to 420 until there is something to see',
    ),
    seed: flag.integer(0)('--seed <n>', 'of prompts, answers and adapters; default random'),
    baseModel: flag.text('--base-model <name>', 'weights to start from; default trainyard/spark', {
      default: 'trainyard/spark',
    }),
    dataDir: flag.setting('data-dir', { isAdvanced: true }),
  },
  exits: ['not_found', 'conflict', 'job_failed'],
  next: ['trainyard chat <model>', 'trainyard train rl <model> --file groups.jsonl --watch'],
  async run(context) {
    const { clock, config, flags, signal } = context
    const startMs = clock.monotonicMs()
    const task = demoTasks.find((each) => each.name === flags.task)
    if (task === undefined) throw new Error(`no task "${flags.task}"`)
    const seed = flags.seed ?? randomSeed()
    const server = await borrowServer(context)
    let printer: ReturnType<typeof createDemoPrinter> | null = null
    let model: Model | null = null
    try {
      const { client, startCommand } = server
      const created = await createDemoModel(client, {
        baseModel: flags.baseModel,
        name: `demo-${task.name}`,
        project: config.get('project'),
        entity: config.get('entity'),
        signal,
      })
      model = created
      printer = createDemoPrinter(context, { startCommand, commands: nextCommands(context, created, task) })
      const events = runDemo({
        kind: flags.sft ? 'sft' : 'rl',
        client,
        model: created,
        task,
        seed,
        clock,
        startMs,
        steps: flags.steps ?? (flags.sft ? 6 : 40),
        budgetMs: (flags.maxSeconds ?? 70) * 1000,
        longestMs: (flags.maxSeconds ?? 420) * 1000,
        signal,
        nameAt: (step) => inferenceName(created, step),
        requireCompleted,
      })
      for await (const event of events) printer.print(event)
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw error
      throw error.withLines(model === null ? [] : [`Stopped. Model ${model.name} keeps the checkpoints it has.`])
    } finally {
      printer?.stop()
      await server.release()
    }
  },
})

/**
 * Talk to it, look at it, and what to train it on next: as this reader has to spell them. Every line runs as it stands; a
 * `train` would name a file that nobody has yet.
 */
function nextCommands({ config, spell }: CommandContext, model: Model, task: DemoTask): readonly string[] {
  const isElsewhere = config.resolve('project').source === 'flag'
  const name = isElsewhere ? `${model.project}/${model.name}` : shortName(model, config)
  const elsewhere = config.resolve('server').source === 'flag' ? ['--server', config.get('server') ?? ''] : []
  const prompt = task.heldOut[0]?.prompt ?? 'Hello!'
  return [
    command`trainyard chat ${[name, prompt, ...elsewhere]}`,
    command`trainyard ui ${[name, ...elsewhere]}    # its curve, in a browser`,
    command`trainyard checkpoints list ${[name, ...elsewhere]}`,
    'trainyard help files    # what to train it on next looks like this',
  ].map(spell)
}
