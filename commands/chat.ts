/**
 * `trainyard chat` (alias `run`): a conversation at the terminal, or one question and its answer.
 */

import { isJsonObject } from '#base/util/json.js'
import { chatFlags, readMessageFile, readMessages, sampling } from '#cli/chat/chat-input.js'
import { defaultSampling, untilRepeating } from '#cli/chat/defaults.js'
import { runRepl } from '#cli/chat/repl.js'
import { describeServed } from '#cli/chat/repl-state.js'
import { loadJson, saveGroup } from '#cli/chat/save.js'
import { createSession } from '#cli/chat/session.js'
import { renderAnswerTokens } from '#cli/chat/tokens.js'
import { readTools } from '#cli/chat/tools.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { assertOneStep, resolveServed } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { answerOnce, streamAnswer } from '#cli/views/chat-output.js'
import type { ChatChunk, ChatRequestBody, ChatResponse } from '#contract/wire/chat-completions.js'
import { Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'

export const chat = defineCommand({
  path: ['chat'],
  summary: 'Talk to a model, or ask it once',
  details:
    'With a prompt, or anything piped in or out: one answer, and nothing else on stdout. Without: a conversation; /help lists its commands. Standard input is put before the prompt, a blank line between; a program that leaves it open and silent is not waited for, unless the prompt has the word -. Base models answer under their own name.',
  examples: [
    ['trainyard chat email-agent', 'a conversation with the latest checkpoint'],
    ['trainyard chat email-agent "Who wrote the Q3 report?"', 'one answer, as it is written'],
    ['cat mail.txt | trainyard chat email-agent "Summarise:" > summary.txt', 'input from a pipe'],
    ['trainyard chat email-agent:step3 --json --temperature 0 "Who?"', 'one chat.completion object of step 3'],
  ],
  namespace: ['project', 'entity'],
  args: {
    model: argument.required('id, name, project/name, entity/project/name, :stepN if wanted, or a base model', {
      asks: 'served',
    }),
    prompt: argument.rest('what to ask; - waits for standard input'),
  },
  flags: chatFlags,
  exits: ['not_found'],
  async run(context) {
    const { connect, io, output, args, flags, signal } = context
    assertOneStep(args.model, flags.step)
    if (flags.stream === true && (flags.count ?? 1) > 1 && output.mode !== 'json') {
      throw new UsageError(
        'conflicting_options',
        '--stream and -n exclude each other: answers would be printed mixed',
        {
          hint: 'leave --stream out, or add --json for chunks with the index of their answer',
        },
      )
    }
    const tools = flags.tools === undefined ? null : await readTools(flags.tools, io)
    const schema = flags.schema === undefined ? null : await readSchema(flags.schema, context)
    const isConversation =
      args.prompt.length === 0 && output.mode === 'human' && io.stdin.isTerminal && output.isTerminal
    if (isConversation) {
      const client = await connect()
      const served = await resolveServed(context, client, args.model, flags.step)
      const given = sampling(flags)
      const isTrainedOn = flags.save !== undefined
      const own = isTrainedOn ? {} : await defaultSampling(client, served.model, given, signal)
      const session = createSession(client, {
        model: served.name,
        system: flags.system ?? null,
        sampling: { ...own, ...given },
        onRepeating: isTrainedOn ? null : () => output.warning(REPEATING),
        tools,
        schema,
      })
      if (flags.messages !== undefined) session.load(await readMessageFile(flags.messages, io))
      return await runRepl(context, {
        client,
        session,
        state: {
          model: args.model,
          label: describeServed(served),
          hasLogprobs: flags.logprobs,
          compared: null,
          savePath: flags.save ?? null,
        },
        hasHistory: flags.history !== false,
      })
    }
    if (flags.history !== undefined) {
      const name = flags.history ? '--history' : '--no-history'
      throw new UsageError('conflicting_options', `${name} is about a conversation, and one answer keeps no history`, {
        param: name,
        hint: 'leave it out; a conversation is trainyard chat <model> at a terminal, without a prompt',
      })
    }
    if (args.prompt.length === 0 && flags.messages === undefined && io.stdin.isTerminal) {
      throw new UsageError('missing_argument', 'a prompt is required', {
        hint: 'trainyard chat <model> "your question", or pipe it in',
      })
    }
    const { system, messages: file } = flags
    const messages = await readMessages(io, { prompt: args.prompt, system, file, warn: output.warning })
    const client = await connect()
    const { name: model, model: own } = await resolveServed(context, client, args.model, flags.step)
    const isRecorded = flags.logprobs || flags.save !== undefined
    const given = sampling(flags)
    const request: ChatRequestBody = {
      model,
      messages,
      ...(flags.save === undefined ? await defaultSampling(client, own, given, signal) : {}),
      ...given,
      ...(isRecorded ? { logprobs: true, return_token_ids: true } : {}),
      ...(tools === null ? {} : { tools: [...tools] }),
      ...(schema === null
        ? {}
        : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } }),
    }
    const isStreamed = flags.stream ?? (output.mode !== 'json' && (flags.count ?? 1) === 1)
    // as JSON, and what is to be trained on, comes whole
    const isWhole = output.mode === 'json' || isRecorded || schema !== null
    const chunks = (): AsyncIterable<ChatChunk> => {
      const all = client.chat.stream(request, { signal })
      return isWhole ? all : untilRepeating(all, () => output.warning(REPEATING))
    }
    const response = isStreamed
      ? await streamAnswer(context, chunks(), flags.stats)
      : await answerOnce(context, () => client.chat.create(request, { signal }), flags.stats)
    if (flags.logprobs) printTokens(context, response)
    if (flags.save !== undefined) await saveGroup(flags.save, toGroup(request, response))
  },
})

const REPEATING = 'the answer began to repeat itself, and was ended there'

async function readSchema(path: string, { io }: CommandContext): Promise<Readonly<Record<string, unknown>>> {
  const schema = await loadJson(path, io)
  if (isJsonObject(schema)) return schema
  throw new UsageError('input_invalid', `--schema ${path} must hold a JSON object`)
}

function printTokens({ io }: CommandContext, response: ChatResponse): void {
  for (const choice of response.choices) {
    io.stderr.write(`${renderAnswerTokens(choice, io.stderr)}\n`)
  }
}

/** Every answer as a trajectory of its own, in one group: they answer the same question. */
function toGroup(request: ChatRequestBody, response: ChatResponse): TrajectoryGroup {
  return new TrajectoryGroup(
    response.choices.map((choice) => {
      const tools = request.tools ?? null
      const trajectory = new Trajectory(request.messages, tools === null ? {} : { tools })
      trajectory.record({ ...response, choices: [choice] })
      return trajectory
    }),
  )
}
