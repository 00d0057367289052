/**
 * `trainyard probes answers`: what each step says to a watched prompt.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { parseInteger } from '#cli/input/parse.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import { quoteWord } from '#contract/wire/command-words.js'
import type { ProbeAnswer } from '#contract/wire/inference/probes.js'
import { collectPages } from '#sdk/client/pages.js'
import { answerLine, findProbe, PROBE_ARGUMENT } from './probe-answers.js'

const columns: readonly Column<ProbeAnswer>[] = [
  { header: 'step', kind: 'number', get: ({ step }) => step },
  { header: 'answer', get: answerLine, canShrink: true },
  { header: 'tokens', kind: 'number', get: ({ completion_tokens: tokens }) => tokens, rank: 1 },
  { header: 'answered', kind: 'time', get: ({ answered_at: at }) => at, rank: 2 },
]

export const probeAnswers = defineCommand({
  path: ['probes', 'answers'],
  summary: 'Show what each step says to a watched prompt',
  details: 'Step 0 is the base model. With --ask earlier steps answer it too, while their checkpoints are there.',
  examples: [
    ['trainyard probes answers email-agent 1', 'the first of the list'],
    ['trainyard probes answers email-agent 1 --ask 3,7', 'have steps 3 and 7 answer it as well'],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }),
    prompt: argument.required(PROBE_ARGUMENT),
  },
  flags: { ask: flag.text('--ask <steps>', 'steps that are to answer it, separated by commas'), ...pageFlags },
  exits: ['not_found'],
  next: ['trainyard probes list <model>'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const steps = flags.ask?.split(',').map((text) => parseInteger(text.trim(), 0))
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const probe = await findProbe(client, model, args.prompt, signal)
    if (steps !== undefined) await client.probes.ask(model.id, probe.id, steps, { signal })
    const { limit, after } = flags
    const page = flags.all
      ? await collectPages((query) => client.probes.answers(model.id, probe.id, query, { signal }), { after })
      : await client.probes.answers(model.id, probe.id, { limit, after }, { signal })
    output.list(page, columns, {
      isWide: flags.wide,
      nextCommand: nextPageCommand(`probes answers ${quoteWord(args.model)} ${probe.id}`, page, { '--limit': limit }),
    })
  },
})
