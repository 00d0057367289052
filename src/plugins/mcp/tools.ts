/**
 * The tools: endpoints, each with the sentence that says when to use it, and three of several requests. What an endpoint takes
 * stands in its row of the table; here stands only what a row cannot say.
 */
import type { EndpointTable } from '#contract/endpoints/table.js'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import { type EndpointTool, endpointTool } from './endpoint-tool.js'
import { evaluateTool } from './evaluate.js'
import { readFileTool, uploadTool } from './file-tools.js'
import type { Tool } from './tool.js'

const model = 'Id of a model: create_model answers it, list_models lists it'
const file = 'Id of a file: upload_file answers it'
const grader =
  'A grader in OpenAI’s form, for example {"type": "string_check", "name": "exact", "operation": "eq", "input": "{{sample.output_text}}", ' +
  '"reference": "{{item.answer}}"}; check_grader tries it'
const JOB = {
  path: '/v1/preview/training-jobs/{id}',
  ended: ['completed', 'failed', 'cancelled'],
} as const
const LOOP = {
  path: '/v1/preview/loops/{id}',
  ended: ['paused', 'succeeded', 'failed', 'cancelled'],
  of: (loop: Readonly<Record<string, unknown>>) => ({ done: Number(loop['step']), total: Number(loop['steps']) }),
} as const
const plan = 'true: only say what the job would do, how long it takes and what is wrong with its rows'

/** In the order in which an agent needs them. */
const ROWS: readonly EndpointTool[] = [
  {
    name: 'whoami',
    key: 'GET /v1/whoami',
    use: 'Whose key this is and what it may do. Use it first where a call is refused.',
  },
  {
    name: 'list_base_models',
    key: 'GET /v1/preview/base-models/details',
    use: 'Base models that a model can be created from, with size and state.',
  },
  {
    name: 'add_base_model',
    key: 'POST /v1/preview/base-models',
    use: 'Fetch a base model from a hub; watch it in list_base_models. Needs an admin key.',
  },
  { name: 'list_models', key: 'GET /v1/preview/models', use: 'Models that are trained here, with their newest step.' },
  {
    name: 'create_model',
    key: 'POST /v1/preview/models',
    use: 'Make a trainable model from a base model, or fork one: from_checkpoint names `model:step3`. Do this before any training.',
    fields: ['project', 'name', 'base_model', 'from_checkpoint', 'return_existing'],
    about: {
      project: 'Any name that groups models, for example default',
      base_model: 'Of list_base_models, for example trainyard/spark',
      return_existing: 'true: a model of that name is answered instead of a refusal',
    },
  },
  { name: 'get_model', key: 'GET /v1/preview/models/{model_id}', use: 'One model: base model, newest step.' },
  {
    name: 'model_history',
    key: 'GET /v1/preview/models/{model_id}/metrics',
    use: 'Curves of a model over its steps: reward, loss, held-out results. Use it to see whether it learns.',
  },
  {
    name: 'note_model',
    key: 'PUT /v1/preview/models/{model_id}/note',
    use: 'Write down what a model is for and what was tried: the hypothesis, what changed, what came out.',
  },
  {
    name: 'delete_model',
    key: 'DELETE /v1/preview/models/{model_id}',
    use: 'Delete a model with all its checkpoints. There is no way back.',
  },
  {
    name: 'list_checkpoints',
    key: 'GET /v1/preview/models/{model_id}/checkpoints',
    use: 'Checkpoints of a model; each answers as `name:step3`.',
  },
  {
    name: 'list_evaluations',
    key: 'GET /v1/preview/models/{model_id}/log',
    use: 'Evaluations that were recorded of a model, by step.',
  },
  {
    name: 'compare_steps',
    key: 'GET /v1/preview/models/{model_id}/log/compare',
    use: 'Two recorded evaluations prompt by prompt: what got better and what worse, with an interval.',
  },
  { name: 'list_files', key: 'GET /v1/files', use: 'Uploaded files.' },
  { name: 'delete_file', key: 'DELETE /v1/files/{file_id}', use: 'Delete a file.', about: { file_id: file } },
  {
    name: 'training_options',
    key: 'GET /v1/preview/training-options',
    use: 'All options of jobs with defaults and what suits a base model. Read it before you set config; defaults are good.',
  },
  {
    name: 'train_on_examples',
    key: 'POST /v1/preview/sft-training-jobs',
    use:
      'Supervised training on conversations whose last message is the wanted answer. Use it first: it teaches form and what a base model ' +
      'never does by itself. Ask with plan: true before. Options that you leave out suit the model and the rows.',
    about: { model_id: model, training_data_url: file, validation_data_url: file, plan },
    kind: 'sft',
    watch: JOB,
  },
  {
    name: 'train_on_preferences',
    key: 'POST /v1/preview/dpo-training-jobs',
    use: 'Preference training (DPO) on rows of prompt, chosen and rejected. Use it where one answer is better and none is right.',
    about: { model_id: model, training_data_url: file, validation_data_url: file, plan },
    kind: 'dpo',
    watch: JOB,
  },
  {
    name: 'train_with_grader',
    key: 'POST /v1/preview/loops',
    use:
      'Reinforcement learning that the server runs by itself: sample answers to prompts, grade them, train, measure on held-out prompts, ' +
      'again. Use it once the model gets the grader’s reward at least sometimes; before, train_on_examples.',
    about: {
      model_id: model,
      prompts_file: `${file}; rows are {"messages": […], "answer": …}`,
      held_out_file: file,
      grader,
      steps: 'Most steps; it stops by itself when everything is solved',
    },
    watch: LOOP,
  },
  {
    name: 'train_on_rollouts',
    key: 'POST /v1/preview/training-jobs',
    use: 'One reinforcement step on answers that you sampled and rewarded yourself: groups of answers to one prompt with rewards.',
    about: { model_id: model, plan },
    kind: 'rl',
    watch: JOB,
  },
  { name: 'list_jobs', key: 'GET /v1/preview/training-jobs', use: 'Training jobs, newest first.' },
  {
    name: 'get_job',
    key: 'GET /v1/preview/training-jobs/{training_job_id}',
    use: 'One job: state, step, its report, and warnings: what looks wrong and what to do. Read the warnings of every job.',
    watch: JOB,
  },
  {
    name: 'job_events',
    key: 'GET /v1/preview/training-jobs/{training_job_id}/events',
    use: 'Numbers of a job by gradient step.',
  },
  {
    name: 'job_groups',
    key: 'GET /v1/preview/training-jobs/{training_job_id}/groups',
    use: 'Answers that a reinforcement job trained on, by group, with rewards. Use it when a reward does not rise.',
  },
  {
    name: 'stop_job',
    key: 'POST /v1/preview/training-jobs/{training_job_id}/stop',
    use: 'End a running job after its gradient step and keep what it learned.',
    watch: JOB,
  },
  {
    name: 'cancel_job',
    key: 'POST /v1/preview/training-jobs/{training_job_id}/cancel',
    use: 'End a job and keep nothing of it.',
    watch: JOB,
  },
  { name: 'list_loops', key: 'GET /v1/preview/loops', use: 'Loops of the server: trainings with a grader.' },
  {
    name: 'get_loop',
    key: 'GET /v1/preview/loops/{loop_id}',
    use: 'One loop: step, rewards on training and held-out prompts, what went wrong.',
    watch: LOOP,
  },
  {
    name: 'loop_answers',
    key: 'GET /v1/preview/loops/{loop_id}/answers',
    use: 'Best and worst answers of a loop’s newest evaluation. Use it to see whether the grader is fooled.',
  },
  { name: 'loop_metrics', key: 'GET /v1/preview/loops/{loop_id}/metrics', use: 'Numbers of a loop by step.' },
  { name: 'pause_loop', key: 'POST /v1/preview/loops/{loop_id}/pause', use: 'Pause a loop.' },
  { name: 'resume_loop', key: 'POST /v1/preview/loops/{loop_id}/resume', use: 'Let a paused loop go on.', watch: LOOP },
  { name: 'cancel_loop', key: 'POST /v1/preview/loops/{loop_id}/cancel', use: 'End a loop; the model keeps its step.' },
  {
    name: 'check_grader',
    key: 'POST /v1/fine_tuning/alpha/graders/run',
    use: 'Try a grader on an answer before you train by it: on a right one, a wrong one and an empty one.',
    about: { grader, item: 'The row that templates call item', model_sample: 'The answer' },
  },
  {
    name: 'chat',
    key: 'POST /v1/chat/completions',
    use: 'Ask a model or a base model. Look at a few answers before and after training.',
    fields: [
      'model',
      'messages',
      'max_completion_tokens',
      'temperature',
      'top_p',
      'n',
      'seed',
      'stop',
      'tools',
      'tool_choice',
      'response_format',
    ],
    about: { model: 'Name of a model, `name:step3`, or a base model' },
  },
  {
    name: 'watch_prompt',
    key: 'POST /v1/preview/models/{model_id}/probes',
    use: 'Have every later step of a model answer a prompt, to see how its answers change.',
  },
  { name: 'list_watched_prompts', key: 'GET /v1/preview/models/{model_id}/probes', use: 'Watched prompts of a model.' },
  {
    name: 'watched_answers',
    key: 'GET /v1/preview/models/{model_id}/probes/{probe_id}/answers',
    use: 'What each step says to a watched prompt.',
  },
  {
    name: 'mark_answer',
    key: 'POST /v1/preview/models/{model_id}/marks',
    use: 'Keep that an answer is good or bad; marks become rows to train on.',
  },
  { name: 'list_events', key: 'GET /v1/preview/events', use: 'What happened lately on the service.' },
]

/** Which tool answers what a code says is not there. */
const LISTED_BY: readonly (readonly [RegExp, string])[] = [
  [/^base_model_/, 'list_base_models'],
  [/^model_/, 'list_models'],
  [/^file_/, 'list_files'],
  [/^(?:training_)?job_/, 'list_jobs'],
  [/^loop_/, 'list_loops'],
  [/^checkpoint_/, 'list_checkpoints'],
  [/^(?:insufficient_scope|forbidden|permission)/, 'whoami'],
  [/(?:config|option)/, 'training_options'],
  [/grader/, 'check_grader'],
]

/** The next call behind a refusal; null: its own words say it. */
export const nextCallOf = (code: string): string | null => LISTED_BY.find(([of]) => of.test(code))?.[1] ?? null

/** What a key of a scope is offered, of what the service has. */
export function toolsOf(table: EndpointTable, scope: KeyScope): readonly Tool[] {
  const rows = ROWS.map((row) => endpointTool(row, table, scope))
  const more = [uploadTool, readFileTool, evaluateTool].map((make) => make(table, scope))
  return [...rows, ...more].filter((tool) => tool !== null)
}
