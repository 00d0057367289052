/**
 * Whether a model's chat template reads the variables that a job sets: one that it does not know would train nothing.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject } from '#base/util/json.js'
import { JOB_DEFINITIONS } from '#contract/jobs/kinds.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import { kwargsReadBy } from '#model/text/chat-template.js'
import type { TextModel } from '#model/text/text-model.js'

/**
 * Looks at what the job itself sets: what it has from its checkpoint was read when that was made.
 *
 * @throws {InvalidRequestError} `unread_template_kwarg`, which names what the template does read
 */
export function assertKwargsAreRead(
  { chatTemplate }: Pick<TextModel, 'chatTemplate'>,
  { kind, config, base_model: base }: Pick<WorkerJob, 'kind' | 'config' | 'base_model'>,
): void {
  const given = config['chat_template_kwargs']
  // a model without a template is refused where one is needed
  if (!isJsonObject(given) || chatTemplate === null) return
  const known = kwargsReadBy(chatTemplate)
  const unread = Object.keys(given).find((name) => !known.includes(name))
  if (unread === undefined) return
  const param = `${JOB_DEFINITIONS[kind].root}.chat_template_kwargs.${unread}`
  const reads = known.length === 0 ? 'no variable of a caller' : known.join(', ')
  throw new InvalidRequestError(
    'unread_template_kwarg',
    `${param} is set, but the chat template of ${base.name} does not read it: it reads ${reads}`,
    { param, hint: 'leave it out, or use a name that the template reads' },
  )
}
