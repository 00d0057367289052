/**
 * `trainyard checkpoints download`: one step as a folder that other programs load.
 */
import { join, resolve } from 'node:path'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { parseStepChoice, selectCheckpoint } from '#cli/input/checkpoint-selection.js'
import { downloadFiles } from '#cli/local/download.js'
import { assertOneStep, findModel, parseModelReference } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatBytes } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import { EXPORT_FORMATS, EXPORT_PRECISIONS, type ExportPrecision } from '#contract/wire/export-words.js'
import { collectPages } from '#sdk/client/pages.js'

export const downloadCheckpoint = defineCommand({
  path: ['checkpoints', 'download'],
  summary: 'Save a checkpoint as an adapter, as merged weights, or as GGUF',
  details:
    'peft is the adapter alone, merged a Hugging Face directory with the adapter inside the weights (transformers, vLLM), ' +
    'gguf the same for llama.cpp and LM Studio with a Modelfile for Ollama, gguf-adapter the adapter for llama.cpp. ' +
    'Step 0 is the base model. The folder appears only when every file is whole; until then it is called <folder>.partial.',
  examples: [
    ['trainyard checkpoints download email-agent', 'the latest step, into ./email-agent-step<n>'],
    [
      'trainyard checkpoints download email-agent --step best:val/reward --out adapters',
      'the best one, below adapters/',
    ],
    ['trainyard checkpoints download email-agent --step 9 --json', 'one step, listing files and digests'],
    ['trainyard checkpoints download email-agent --format gguf --precision q8_0', 'for llama.cpp and Ollama'],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name or entity/project/name, with :stepN if wanted', { asks: 'model' }),
  },
  flags: {
    step: flag.custom(parseStepChoice)('--step <step>', 'a step number, latest (default), or best[:<metric>]'),
    format: flag.choice(EXPORT_FORMATS)('--format <format>', 'peft, merged, gguf or gguf-adapter', { default: 'peft' }),
    precision: flag.custom(parsePrecision)(
      '--precision <type>',
      'of exported weights: f32, f16, bf16 or q8_0; default f16 in GGUF, else as the base model',
    ),
    out: flag.text('--out <dir>', 'folder to put the adapter folder in', { default: '.' }),
    optimizer: flag.switch('--optimizer', "include the optimizer's state"),
    force: flag.switch('--force', 'replace files of an existing folder'),
  },
  exits: ['not_found', 'conflict'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    assertOneStep(args.model, flags.step)
    const { format, precision } = flags
    if (flags.optimizer && format !== 'peft') {
      throw new UsageError('conflicting_options', `--optimizer has no effect with --format ${format}`, {
        param: '--optimizer',
        hint: "only peft, the format to go on training from, has the optimizer's state: leave --format or --optimizer out",
      })
    }
    const client = await connect()
    const reference = parseModelReference(args.model)
    const model = await findModel(reference, { ...context, client })
    const { data } = await collectPages((query) => client.checkpoints.list(model.id, query, { signal }))
    const named =
      reference.step === null ? ({ kind: 'latest' } as const) : ({ kind: 'step', step: reference.step } as const)
    const wanted = flags.step ?? named
    const isBase = wanted.kind === 'step' && wanted.step === 0
    const { step } = isBase ? { step: 0 } : selectCheckpoint(data, wanted)
    const query = format === 'peft' && precision === undefined ? {} : { format, precision }
    const listing = await client.checkpoints.files(model.id, step, { ...query, signal })
    const files = listing.files.filter((file) => flags.optimizer || !file.name.startsWith('optimizer'))
    if (flags.optimizer && !files.some((file) => file.name.startsWith('optimizer'))) {
      output.warning(`step ${step} has no optimizer state: it is the base model or was not trained here`)
    }
    const suffix = format === 'peft' ? '' : `-${format}`
    const path = join(flags.out, `${model.name.replace(/[^\w.-]/g, '_').replace(/^\.+/, '_')}-step${step}${suffix}`)
    const progress = startProgress(io, output.mode === 'human', `Downloading step ${step}`)
    try {
      await downloadFiles({
        target: resolve(path),
        files,
        isForced: flags.force,
        openFile: (name) => client.checkpoints.download(model.id, step, name, { ...query, signal }),
        onProgress: (name, done, total) => progress.update(`${name}  ${formatBytes(done)} of ${formatBytes(total)}`),
      })
    } finally {
      progress.stop()
    }
    const sizeBytes = files.reduce((sum, file) => sum + file.size_bytes, 0)
    const names = files.map((file) => file.name).join(' + ')
    const json = { model: model.name, model_id: model.id, step, path, format, files }
    output.result(json, `Downloaded step ${step} to ${path}  (${formatBytes(sizeBytes)}, ${names})`, [path])
  },
})

/** @throws {UsageError} `invalid_option` for other kinds of GGUF, with what to do instead */
function parsePrecision(text: string): ExportPrecision {
  const known = EXPORT_PRECISIONS.find((precision) => precision === text.toLowerCase())
  if (known !== undefined) return known
  throw new UsageError('invalid_option', `--precision must be one of ${EXPORT_PRECISIONS.join(', ')}, got "${text}"`, {
    param: '--precision',
    hint: /^i?q\d/i.test(text)
      ? `export f16 and run llama.cpp: llama-quantize model-f16.gguf model.gguf ${text.toUpperCase()}`
      : undefined,
  })
}
