/**
 * `trainyard checkpoints download`: the adapter of one step as a folder that PEFT reads.
 */
import { join, resolve } from 'node:path'
import { collectPages } from '#api/client/pages.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { parseStepChoice, selectCheckpoint } from '#cli/input/checkpoint-selection.js'
import { findModel, parseModelReference } from '#cli/input/model-reference.js'
import { downloadFiles } from '#cli/local/download.js'
import { formatBytes } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'

export const downloadCheckpoint = defineCommand({
  path: ['checkpoints', 'download'],
  summary: 'Save a checkpoint as a PEFT adapter folder',
  details: 'The folder appears only when every digest matches; until then it is called <folder>.partial.',
  examples: [
    ['trainyard checkpoints download email-agent', 'the latest step, into ./email-agent-step<n>'],
    ['trainyard checkpoints download email-agent --step best:val/reward -o adapters', 'the best one, below adapters/'],
    ['trainyard checkpoints download email-agent --step 9 --json', 'one step, listing files and digests'],
  ],
  args: { model: argument.required('id, name, project/name or entity/project/name, with :stepN if wanted') },
  flags: {
    step: flag.custom(parseStepChoice)('--step <step>', 'a step number, latest (default), or best[:<metric>]'),
    output: flag.text('-o, --output <dir>', 'folder to put the adapter folder in', { default: '.' }),
    optimizer: flag.switch('--optimizer', "include the optimizer's state"),
    force: flag.switch('--force', 'replace files of an existing folder'),
  },
  exits: ['not_found', 'conflict'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    const client = await connect()
    const reference = parseModelReference(args.model)
    const model = await findModel(reference, { ...context, client })
    const { data } = await collectPages((query) => client.checkpoints.list(model.id, query, { signal }))
    const named =
      reference.step === null ? ({ kind: 'latest' } as const) : ({ kind: 'step', step: reference.step } as const)
    const { step } = selectCheckpoint(data, flags.step ?? named)
    const listing = await client.checkpoints.files(model.id, step, { signal })
    const files = listing.files.filter((file) => flags.optimizer || !file.name.startsWith('optimizer'))
    const path = join(flags.output, `${model.name.replace(/[^\w.-]/g, '_').replace(/^\.+/, '_')}-step${step}`)
    const progress = startProgress(io, output.mode === 'human', `Downloading step ${step}`)
    try {
      await downloadFiles({
        target: resolve(path),
        files,
        isForced: flags.force,
        openFile: (name) => client.checkpoints.download(model.id, step, name, { signal }),
        onProgress: (name, done, total) => progress.update(`${name}  ${formatBytes(done)} of ${formatBytes(total)}`),
      })
    } finally {
      progress.stop()
    }
    const sizeBytes = files.reduce((sum, file) => sum + file.size_bytes, 0)
    const names = files.map((file) => file.name).join(' + ')
    const json = { model: model.name, model_id: model.id, step, path, format: 'peft', files }
    output.result(json, `Downloaded step ${step} to ${path}  (${formatBytes(sizeBytes)}, ${names})`, [path])
  },
})
