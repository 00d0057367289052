/**
 * `trainyard models create`: registers a model that can then be trained.
 */

import { ApiError } from '#api/client/errors.js'
import { ConflictError } from '#base/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { UsageError } from '#cli/command/errors.js'
import { argument, flag } from '#cli/command/flags.js'
import { parseModelReference, shortName } from '#cli/input/model-reference.js'

export const createModel = defineCommand({
  path: ['models', 'create'],
  summary: 'Register a trainable model',
  examples: [
    ['trainyard models create email-agent --base-model trainyard/spark', 'a new model in the default project'],
    ['trainyard models create games/chess --base-model trainyard/spark --if-not-exists', 'reuse it if it is there'],
  ],
  args: { name: argument.required('name, project/name or entity/project/name') },
  flags: {
    baseModel: flag.text('--base-model <name>', 'weights to start from; trainyard base-models list shows them'),
    ifNotExists: flag.switch('--if-not-exists', 'return the existing model of that name instead of failing'),
  },
  exits: ['conflict'],
  next: ['trainyard train sft <model> --file data.jsonl --watch', 'trainyard chat <model>'],
  async run({ connect, output, config, args, flags, signal }) {
    if (flags.baseModel === undefined) {
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
    const client = await connect()
    const request = {
      entity: reference.entity ?? config.get('entity'),
      project,
      name: reference.name,
      base_model: flags.baseModel,
      return_existing: flags.ifNotExists,
    }
    const model = await client.models.create(request, { signal }).catch((error: unknown) => {
      if (!(error instanceof ApiError) || error.status !== 409 || flags.ifNotExists) throw error
      const message = `model "${reference.name}" already exists in project "${project}"`
      throw new ConflictError('model_already_exists', message, {
        hint: 'add --if-not-exists to reuse it',
        cause: error,
      })
    })
    if (model.base_model !== flags.baseModel) {
      throw new ConflictError(
        'base_model_mismatch',
        `model "${model.name}" exists with base model ${model.base_model}, not ${flags.baseModel}`,
      )
    }
    output.result(model, `Created model ${model.name} (${model.id}) from ${model.base_model}`, [model.id])
    output.hint(`trainyard train sft ${shortName(model, config)} --file data.jsonl --watch`)
  },
})
