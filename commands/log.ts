/**
 * `trainyard log`: trajectory groups as an evaluation of the latest checkpoint; nothing is trained.
 */
import { isJsonObject } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { readTrajectoryFile } from '#cli/input/trajectory-file.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { formatNumber, plural } from '#cli/terminal/format.js'

export const log = defineCommand({
  path: ['log'],
  summary: 'Record trajectory groups as an evaluation',
  details: "Nothing is trained; to read a job's progress use trainyard jobs events.",
  examples: [
    ['trainyard log email-agent --file val.jsonl', 'averages become val/reward and so on'],
    ['trainyard log email-agent --file groups.jsonl --split test', 'under another split'],
    ['trainyard log email-agent --file - --dry-run < groups.jsonl', 'check a file, send nothing'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }) },
  flags: {
    file: flag.required('--file <path>', 'JSON Lines of trajectory groups, - for standard input', {
      what: 'trajectory groups',
      hint: 'trainyard rollout makes one; trainyard help files shows the format',
    }),
    split: flag.text('--split <name>', 'prefix of the metrics', { default: 'val' }),
    dryRun: flag.switch('--dry-run', 'check the file, send nothing'),
  },
  exits: ['not_found'],
  next: ['trainyard checkpoints list <model> --metrics val/reward'],
  prepare: ({ flags, io }) => readTrajectoryFile(flags.file, io),
  async run(context) {
    const { connect, output, args, flags, signal, prepared: file } = context
    const reference = parseWholeModel(args.model, {
      takesLatest: true,
      hint: 'metrics are recorded at the latest step',
    })
    const counts = `${plural(file.groups.length, 'group')} (${plural(file.trajectoryCount, 'trajectory', 'trajectories')})`
    const client = await connect()
    const model = await findModel(reference, { ...context, client })
    const json = {
      model_id: model.id,
      split: flags.split,
      step: model.step,
      groups: file.groups.length,
      trajectories: file.trajectoryCount,
    }
    if (flags.dryRun) {
      const metrics = { [`${flags.split}/reward`]: file.meanReward }
      return output.result(
        { ...json, metrics, dry_run: true },
        `Would log ${counts} to split ${flags.split} (dry run)`,
        [model.id],
      )
    }
    const reply = await client.models.log(model.id, { split: flags.split, trajectory_groups: file.groups }, { signal })
    const metrics =
      isJsonObject(reply) && isJsonObject(reply['metrics'])
        ? reply['metrics']
        : { [`${flags.split}/reward`]: file.meanReward }
    const shown = Object.entries(metrics)
      .filter((entry): entry is [string, number] => typeof entry[1] === 'number')
      .map(([name, value]) => `${name.replace(`${flags.split}/`, '')} ${formatNumber(value)}`)
    output.result(
      { ...json, metrics },
      `Logged ${counts} to split ${flags.split} at step ${model.step}\n  ${shown.join('   ')}`,
      [model.id],
    )
  },
})
