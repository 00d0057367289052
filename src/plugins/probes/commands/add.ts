/**
 * `trainyard probes add`: a prompt that every later step of a model answers.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import { DEFAULT_PROBE_TOKENS, MAX_PROBE_TOKENS, MAX_PROBES } from '#contract/wire/inference/probe-words.js'

export const addProbe = defineCommand({
  path: ['probes', 'add'],
  summary: 'Watch a prompt: every later step of a model answers it',
  details: `The base model and the newest step answer it now, each new step after its job, greedily and behind all chats. A model has at most ${MAX_PROBES}; adding one twice changes nothing.`,
  examples: [
    ['trainyard probes add email-agent "I am sad today."', 'then: trainyard probes list email-agent'],
    ['trainyard probes add email-agent "Hi" --system "Ask back." --max-tokens 32', 'with a system prompt'],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name or entity/project/name', { asks: 'model' }),
    prompt: argument.required('what the user says'),
  },
  flags: {
    system: flag.text('--system <text>', 'system prompt before it'),
    maxTokens: flag.integer(1, MAX_PROBE_TOKENS)(
      '--max-tokens <n>',
      `longest answer, 1 to ${MAX_PROBE_TOKENS}; default ${DEFAULT_PROBE_TOKENS}`,
    ),
  },
  exits: ['not_found', 'conflict'],
  next: ['trainyard probes list <model>'],
  async run(context) {
    const { connect, output, args, flags, signal } = context
    const client = await connect()
    const model = await findModel(parseWholeModel(args.model), { ...context, client })
    const messages = [
      ...(flags.system === undefined ? [] : [{ role: 'system' as const, content: flags.system }]),
      { role: 'user' as const, content: args.prompt },
    ]
    const probe = await client.probes.create(model.id, { messages, max_tokens: flags.maxTokens }, { signal })
    output.result(probe, `Watched ${probe.id}: ${model.name} answers it at every step from now on`, [probe.id])
  },
})
