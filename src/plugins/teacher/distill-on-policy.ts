/**
 * Distillation on the model's own answers (`train distill --on-policy`), reported after each update.
 */

import type { CommandContext } from '#cli/command/context.js'
import { resolveServed } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import type { Model } from '#contract/wire/models.js'
import { distillOnPolicy } from '#plugins/rl-library/distill.js'
import { TrainableModel } from '#plugins/rl-library/model.js'
import type { PromptRow } from '#plugins/rollout/prompt-file.js'
import type { Client } from '#sdk/client/client.js'
import { DEFAULT_ANSWER_TOKENS } from './distill-flags.js'

export async function trainOnPolicy(
  context: CommandContext,
  client: Client,
  job: {
    readonly flags: {
      readonly teacher: string
      readonly steps: number | undefined
      readonly samples: number | undefined
      readonly maxTokens: number | undefined
      readonly learning_rate: unknown
    }
    readonly model: Model
    readonly rows: readonly PromptRow[]
  },
): Promise<void> {
  const { output, signal } = context
  const { flags, model, rows } = job
  const { name: teacher } = await resolveServed(context, client, flags.teacher)
  const { learning_rate: rate, steps, samples, maxTokens = DEFAULT_ANSWER_TOKENS } = flags
  if (rate !== undefined && typeof rate !== 'number') {
    throw new UsageError('invalid_argument', '--learning-rate must be one number with --on-policy', {
      param: '--learning-rate',
    })
  }
  const student = await new TrainableModel(client, {
    name: model.name,
    baseModel: model.base_model,
    project: model.project,
  }).register()
  const result = await distillOnPolicy(
    student,
    rows.map(({ messages }) => messages),
    {
      teacher,
      maxTokens,
      signal,
      ...(steps === undefined ? {} : { steps }),
      ...(samples === undefined ? {} : { samples }),
      ...(rate === undefined ? {} : { learningRate: rate }),
      onStep: (each) =>
        output.event(
          { object: 'distill.step', ...each },
          `step ${each.step}: ${formatNumber(each.kl)} nats a token from the teacher, ${plural(each.tokens, 'token')}`,
        ),
    },
  )
  for (const warning of result.warnings) output.warning(warning)
  const [first, last] = [result.steps[0], result.steps.at(-1)]
  output.result(
    {
      object: 'distillation',
      model: model.name,
      step: result.step,
      kl_before: first?.kl,
      kl_last: last?.kl,
      warnings: [...result.warnings],
    },
    `Saved step ${result.step} of ${model.name}: ${formatNumber(first?.kl ?? 0)} nats a token from the teacher before, ${formatNumber(last?.kl ?? 0)} before the last update`,
    [String(result.step)],
  )
}
