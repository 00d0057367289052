/**
 * `trainyard probes list`: the watched prompts of a model, with what the base model and a step say to them.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import { command } from '#contract/wire/command-words.js'
import { MAX_PROBES } from '#contract/wire/inference/probe-words.js'
import type { Probe } from '#contract/wire/inference/probes.js'
import { answerLine } from './probe-answers.js'

export const listProbes = defineCommand({
  path: ['probes', 'list'],
  summary: 'List watched prompts with the answers of the base model and a step',
  details: 'All answers to one of them by step: trainyard probes answers.',
  examples: [
    ['trainyard probes list email-agent', 'the newest step beside the base model'],
    ['trainyard probes list email-agent --step 7', 'step 7 beside it'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    step: flag.integer(0)('--step <step>', 'step whose answers are shown; default the newest'),
    wide: flag.switch('--wide', 'show whole values, however long'),
  },
  exits: ['not_found'],
  next: ['trainyard probes answers <model> 1'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const { step } = flags
    const steps = step === undefined ? {} : { steps: [...new Set([0, step])].join(',') }
    const page = await client.probes.list(model.id, { ...steps, limit: MAX_PROBES }, { signal })
    const places = new Map(page.data.map(({ id }, i) => [id, i + 1]))
    output.list(page, columnsOf(places, step), {
      isWide: flags.wide,
      empty: `no prompt of ${model.name} is watched: ${command`trainyard probes add ${model.name} "…"`}`,
    })
  },
})

function columnsOf(places: ReadonlyMap<string, number>, step: number | undefined): readonly Column<Probe>[] {
  const shown = ({ answers }: Probe) => (step === undefined ? answers.at(-1) : answers.find((one) => one.step === step))
  return [
    { header: '#', kind: 'number', get: ({ id }) => places.get(id) },
    { header: 'prompt', get: ({ messages }) => messages.at(-1)?.content ?? '', canShrink: true },
    { header: 'base', get: ({ answers }) => answerLine(answers.find((one) => one.step === 0)), canShrink: true },
    { header: 'step', kind: 'number', get: (probe) => shown(probe)?.step },
    { header: 'answer', get: (probe) => answerLine(shown(probe)), canShrink: true },
    { header: 'id', get: ({ id }) => id, rank: 1 },
  ]
}
