/**
 * `trainyard models create`: registers a model that can then be trained.
 */

import { ConflictError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { uploadAdapter } from '#cli/input/adapter-folder.js'
import { askForBaseModel } from '#cli/names/ask.js'
import { parseModelReference, shortName } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { command } from '#contract/wire/command-words.js'
import { ApiError } from '#sdk/client/errors.js'

export const createModel = defineCommand({
  path: ['models', 'create'],
  summary: 'Register a trainable model',
  examples: [
    ['trainyard models create email-agent --base-model trainyard/spark', 'a new model in the default project'],
    ['trainyard models create games/chess --base-model trainyard/spark --if-not-exists', 'reuse it if it is there'],
    ['trainyard models create fork --from-checkpoint email-agent:step3', 'go on from step 3 of another model'],
    ['trainyard models create m --base-model trainyard/spark --from-adapter ./lora', 'import an adapter'],
  ],
  details:
    'A model begins as its base model, with --from-checkpoint as a checkpoint of another model (a fork, which keeps its step), ' +
    'or with --from-adapter as a LoRA adapter made elsewhere, which becomes step 1.',
  namespace: ['project', 'entity'],
  args: { name: argument.required('name, project/name or entity/project/name', { asks: 'name' }) },
  flags: {
    baseModel: flag.text('--base-model <name>', 'weights to start from; trainyard base-models list shows them'),
    fromCheckpoint: flag.text('--from-checkpoint <model>', 'begin as this checkpoint: name:step3, or the latest'),
    fromAdapter: flag.text('--from-adapter <path>', 'begin as this adapter: a folder in the layout of PEFT or mlx-lm'),
    ifNotExists: flag.switch('--if-not-exists', 'return the existing model of that name instead of failing'),
  },
  exits: ['conflict'],
  next: ['trainyard train sft <model> --file data.jsonl --watch', 'trainyard chat <model>'],
  async run(context) {
    const { connect, output, config, prompts, args, flags, signal } = context
    if (flags.fromCheckpoint !== undefined && flags.fromAdapter !== undefined) {
      throw new UsageError('conflicting_options', '--from-checkpoint and --from-adapter exclude each other', {
        param: '--from-adapter',
      })
    }
    const isBaseMissing = flags.baseModel === undefined && flags.fromCheckpoint === undefined
    if (isBaseMissing && !prompts.canAsk) {
      throw new UsageError('missing_option', '--base-model is required', {
        param: '--base-model',
        hint: 'trainyard base-models list',
      })
    }
    const reference = parseModelReference(args.name)
    if (reference.id !== null || reference.step !== null) {
      throw new UsageError('invalid_argument', `<name> must be a name, got "${args.name}"`, { param: '<name>' })
    }
    const project = reference.project ?? config.get('project')
    if (/\s/.test(reference.name)) {
      output.warning(`the name holds a blank: every command needs quotes around "${reference.name}"`)
    }
    const client = await connect()
    const adapter =
      flags.fromAdapter === undefined
        ? undefined
        : await uploadAdapter(flags.fromAdapter, { client, signal, param: '--from-adapter' })
    const baseModel = isBaseMissing ? await askForBaseModel(context, client) : flags.baseModel
    const request = {
      entity: reference.entity ?? config.get('entity'),
      project,
      name: reference.name,
      base_model: baseModel,
      from_checkpoint: flags.fromCheckpoint,
      from_adapter: adapter,
    }
    const create = (return_existing: boolean) => client.models.create({ ...request, return_existing }, { signal })
    let isNew = true
    // asked for a new one first: the answer with an existing one does not say which it is
    const model = await create(false).catch((error: unknown) => {
      if (!(error instanceof ApiError) || error.status !== 409) throw error
      if (flags.ifNotExists) {
        isNew = false
        return create(true)
      }
      const message = `model "${reference.name}" already exists in project "${project}"`
      throw new ConflictError('model_already_exists', message, {
        hint: 'add --if-not-exists to reuse it',
        cause: error,
      })
    })
    if (baseModel !== undefined && model.base_model !== baseModel) {
      throw new ConflictError(
        'base_model_mismatch',
        `model "${model.name}" exists with base model ${model.base_model}, not ${baseModel}`,
      )
    }
    const name = `${model.name} (${model.id})`
    output.result(
      model,
      isNew
        ? `Created model ${name} from ${flags.fromCheckpoint ?? flags.fromAdapter ?? model.base_model}`
        : `Model ${name} exists already, from ${model.base_model}`,
      [model.id],
    )
    for (const warning of model.warnings ?? []) output.warning(`${model.name}: ${warning}`)
    output.hint(command`trainyard train sft ${shortName(model, config)} --file data.jsonl --watch`)
  },
})
