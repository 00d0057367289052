/**
 * `trainyard loops create`: training that the server goes through step by step, with a grader as its reward.
 */
import { stringifyExact } from '#base/json/exact-json.js'
import type { JsonValue } from '#base/util/json.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { displayPath, readInput } from '#cli/input/input-file.js'
import { findModel } from '#cli/names/model-reference.js'
import { UsageError } from '#cli/terminal/errors.js'
import { hyperparameterFlags, parseTrainedModel, trainedModel } from '#cli/training/flags.js'
import { optionFlags } from '#cli/training/option-flags.js'
import { collectHyperparameters } from '#cli/training/submission.js'
import { command } from '#contract/wire/command-words.js'
import { readGraderFile } from '#plugins/graders/grader-file.js'
import { readPrompts } from '#plugins/rollout/prompt-file.js'
import type { CreateLoopRequest } from '../wire.js'
import { createLoopCalls } from './loop-calls.js'
import { watchLoop } from './watch-loop.js'

export const createLoopCommand = defineCommand({
  path: ['loops', 'create'],
  summary: 'Train by a grader on the server, step by step',
  details:
    'A step samples answers to some prompts, grades them, and trains on them as an ordinary job. Held-out prompts are measured before the first step, on the way, and after the last. The server does all of it, also after a restart; this command follows, and Ctrl-C leaves the loop running.',
  examples: [
    [
      'trainyard loops create my-model --prompts q.jsonl --grader grader.json --steps 20',
      'a tenth of the prompts is held out',
    ],
    [
      'trainyard loops create my-model --prompts q.jsonl --held-out h.jsonl --grader grader.json --max-tokens 64',
      'measured on prompts of their own',
    ],
  ],
  namespace: ['project', 'entity'],
  args: { model: trainedModel },
  flags: {
    prompts: flag.required('--prompts <file>', 'prompts as trainyard rollout reads them', {
      what: 'a file of prompts',
      hint: '{"prompt": "2+2?", "answer": "4"} is one, a line each',
    }),
    grader: flag.required('--grader <file>', 'the reward, in OpenAI’s form', {
      what: 'a grader',
      hint: 'trainyard grader check tries one on an answer',
    }),
    heldOut: flag.text('--held-out <file>', 'prompts that are measured and never trained on'),
    steps: flag.integer(1, 10_000)('--steps <n>', 'steps; default 20'),
    promptsPerStep: flag.integer(1, 256)('--prompts-per-step <n>', 'prompts a step; default 16'),
    answers: flag.integer(2, 64)('-n, --answers <n>', 'answers a prompt; default 8'),
    evaluateEvery: flag.integer(1, 10_000)(
      '--evaluate-every <n>',
      'steps between evaluations; default a tenth of them',
    ),
    maxTokens: flag.integer(1)('--max-tokens <n>', 'tokens of the longest answer; default 256', { default: 256 }),
    tools: flag.text('--tools <file>', 'who answers calls of functions: [{"name", "server_url", "headers"}, …]'),
    episodeSteps: flag.integer(1, 100)('--max-episode-steps <n>', 'turns of the model with tools; default 10'),
    seed: flag.integer(0)('--seed <n>', 'the same seed, prompts and model: the same answers'),
    detach: flag.switch('--detach', 'do not follow it'),
    ...optionFlags('rl'),
    ...hyperparameterFlags('config'),
  },
  exits: ['not_found', 'job_failed'],
  next: ['trainyard loops watch <id>', 'trainyard chat <model>'],
  async prepare(context) {
    const { flags, io } = context
    const { text } = await readGraderFile(flags.grader, io)
    const config = await collectHyperparameters(context, 'rl', flags)
    const prompts = await readRows(context, flags.prompts)
    const heldOut = flags.heldOut === undefined ? null : await readRows(context, flags.heldOut)
    const tools = flags.tools === undefined ? null : await readToolServers(flags.tools, io)
    return { tools, grader: JSON.parse(text) as CreateLoopRequest['grader'], config, prompts, heldOut }
  },
  async run(context) {
    const { connect, output, args, flags, prepared, signal } = context
    const client = await connect()
    const model = await findModel(parseTrainedModel(args.model), { ...context, client })
    const upload = async (rows: Blob, name: string): Promise<string> =>
      (await client.files.upload(rows, name, { signal })).id
    const calls = createLoopCalls(client, signal)
    const loop = await calls.create({
      model_id: model.id,
      prompts_file: await upload(prepared.prompts, 'prompts.jsonl'),
      held_out_file: prepared.heldOut === null ? null : await upload(prepared.heldOut, 'held-out.jsonl'),
      grader: prepared.grader,
      steps: flags.steps,
      prompts_per_step: flags.promptsPerStep,
      answers_per_prompt: flags.answers,
      evaluate_every: flags.evaluateEvery,
      tools: prepared.tools,
      max_episode_steps: flags.episodeSteps,
      seed: flags.seed,
      sampling: { max_completion_tokens: flags.maxTokens },
      config: prepared.config as CreateLoopRequest['config'],
    })
    if (output.mode !== 'json' || flags.detach) output.result(loop, `Loop ${loop.id} of ${model.name}`, [loop.id])
    output.hint(command`trainyard loops watch ${loop.id}`)
    if (!flags.detach) await watchLoop(context, calls, loop.id)
  },
})

/** The server says what is wrong with a tool. */
async function readToolServers(path: string, io: CommandContext['io']): Promise<CreateLoopRequest['tools']> {
  const text = await readInput(path, io)
  try {
    const tools = JSON.parse(text) as JsonValue
    if (Array.isArray(tools)) return tools as NonNullable<CreateLoopRequest['tools']>
  } catch {
    // said below
  }
  throw new UsageError('invalid_tools', `${displayPath(path)} holds no list of tools`, {
    param: '--tools',
    hint: '[{"name": "look_up", "server_url": "https://…", "headers": {}}]; prompts describe the functions under "tools"',
  })
}

/** Rows as the server reads them. */
async function readRows({ io, output }: Pick<CommandContext, 'io' | 'output'>, path: string): Promise<Blob> {
  const rows = await readPrompts(path, io, { isExact: true, say: output.status })
  return new Blob(rows.map(({ row, messages }) => `${stringifyExact({ ...row, messages: messages as JsonValue })}\n`))
}
