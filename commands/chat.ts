/**
 * `trainyard chat`: one question, one answer, from the arguments, from standard input, or from both.
 */

import type { Client } from '#api/client/client.js'
import { inferenceName } from '#api/client/inference-name.js'
import { NotFoundError } from '#base/errors.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { UsageError } from '#cli/command/errors.js'
import { argument } from '#cli/command/flags.js'
import { chatFlags, readMessages, sampling } from '#cli/input/chat-input.js'
import { findModel, parseModelReference } from '#cli/input/model-reference.js'
import { answerOnce, streamAnswer } from '#cli/terminal/chat-output.js'

export const chat = defineCommand({
  path: ['chat'],
  summary: 'Ask a model',
  details:
    'Standard input is put before the prompt, a blank line between. The answer is the only thing on stdout; base models answer under their own name.',
  examples: [
    ['trainyard chat email-agent "Who wrote the Q3 report?"', 'the latest checkpoint, as it is written'],
    ['cat mail.txt | trainyard chat email-agent "Summarise:" > summary.txt', 'input from a pipe'],
    ['trainyard chat email-agent:step3 --json --temperature 0 "Who?"', 'one chat.completion object of step 3'],
  ],
  args: {
    model: argument.required('id, name, project/name, entity/project/name, :stepN if wanted, or a base model'),
    prompt: argument.rest('what to ask'),
  },
  flags: chatFlags,
  exits: ['not_found'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    if (args.prompt.length === 0 && flags.messages === undefined && io.stdin.isTerminal) {
      throw new UsageError('missing_argument', 'a prompt is required', {
        hint: 'trainyard chat <model> "your question", or pipe it in',
      })
    }
    const messages = await readMessages(io, { prompt: args.prompt, system: flags.system, file: flags.messages })
    const client = await connect()
    const model = await resolveName(context, client, args.model, flags.step)
    const request = { model, messages, ...sampling(flags) }
    const isStreamed = flags.stream ?? (output.mode !== 'json' && (flags.count ?? 1) === 1)
    if (isStreamed) await streamAnswer(context, client.chat.stream(request, { signal }), flags.stats)
    else await answerOnce(context, () => client.chat.create(request, { signal }), flags.stats)
  },
})

/** A trained model's name for inference, else the text itself if the service serves it as a base model. */
async function resolveName(
  context: CommandContext,
  client: Client,
  text: string,
  step: number | null | undefined,
): Promise<string> {
  try {
    const reference = parseModelReference(text)
    const model = await findModel(reference, { ...context, client })
    return inferenceName(model, step === undefined ? reference.step : step)
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error
    const served = await client.servedModels.list({ signal: context.signal })
    if (served.data.some((model) => model.id === text)) return text
    throw error
  }
}
