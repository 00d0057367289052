/**
 * What the names in paths and queries mean, for the OpenAPI document.
 *
 * One sentence a name, because the same name means the same on every endpoint; where one differs, its own sentence stands in its
 * row. A contract test asks for one of every parameter.
 */
import type { Endpoint } from '#contract/endpoints/endpoint.js'

const MODEL_ID = 'Id of a model, a UUID as `POST /v1/preview/models` answers it'
const CHECKPOINT_STEP = 'Step of the checkpoint: a number, or `latest`; 0 is the base model'

/** Names in paths. */
const IN_PATH: Readonly<Record<string, string>> = {
  delivery_id: 'Id of a delivery, as the list of deliveries has it',
  file: 'File name of the picture',
  group: 'Index of a trajectory group in its job, from 0',
  trajectory: 'Index of a trajectory in its group, from 0',
  file_id: 'Id of a file, as its upload answers it',
  id: 'Name that a chat request takes as `model`',
  key_id: 'Id of an API key, not the key itself',
  log_id: 'Id of a log, as the list of logs has it',
  mark_id: 'Id of a mark, as the list of marks has it',
  model_id: MODEL_ID,
  name: 'Name of a base model, slashes written as `%2F`',
  path: 'Address within the page, for example `jobs`; below `assets/`, a file of its build',
  page: 'Name of the page, for example `api`',
  probe_id: 'Id of a watched prompt',
  sampler_id: 'Id of a sampler, as its creation answers it',
  session_id: 'Id of a session, not its token',
  step: CHECKPOINT_STEP,
  training_run_id: 'Id of a training run: the `model_id` of its client',
  training_job_id: 'Id of a training job, a UUID',
  webhook_id: 'Id of a webhook',
  weights_kind: '`weights`, `sampler_weights` or `external_weights`',
  weights_name: 'Name that they were saved under',
}

/** Names in queries. */
const IN_QUERY: Readonly<Record<string, string>> = {
  a: 'Step that is compared with; 0 is what was logged before the first job',
  after: 'Id of the last item of the page before; the page begins behind it',
  artifact: 'Name of the wandb artifact that the file is, `entity/project/name:version`; a job can name it as its data',
  b: 'Step that is judged',
  b_model_id: 'Id of the model that is judged at step b; default the same model',
  base_model: 'Only models of this base model',
  entity: 'Only models of this entity',
  filename: 'Name of the file when its bytes are the whole body; default `upload`',
  format: 'Form the checkpoint is had in; default `peft`',
  from: 'First day, `YYYY-MM-DD`; default 29 days before `to`',
  from_step: 'Lowest step; default 0, the base model',
  include:
    '`summary`: with checkpoints, last activity, the job that runs, rewards and losses, warnings, description and tags; `options`: also with every option of the newest job',
  kind: 'Only jobs of this kind',
  keys: 'Names of metrics, separated by commas; default all',
  min_reward: 'Only groups with a trajectory whose reward is at least this',
  max_reward: 'Only groups with a trajectory whose reward is at most this',
  sequence: 'Which of the sequences that the trajectory was trained as; default 0',
  trained: '`true`: only groups of which something trains, `false`: only the others',
  limit: 'Most items of the page; default 20',
  model: 'Only this model: `entity/project/name`, or the name of a base model',
  model_id: 'Only jobs of the model with this id',
  name: 'Only models of this name',
  offset: 'How many items to leave out',
  order: '`asc`: oldest first, `desc`: newest first; default `asc`',
  outcome: 'Only prompts that got `worse`, `better` or stayed the `same`; default all, the worst first',
  plan: 'Answer what the job would do, and create nothing; default false',
  points:
    'Most points of a series that are chosen, the first, last, lowest and highest of each stretch; a step that one needs is given with all. Default 500',
  precision: 'How weights are stored; not for `peft`. Default: float16 in GGUF, else as the base model has them',
  project: 'Only what belongs to this project',
  query: 'Only models whose name holds this text, in upper or lower case',
  sort: '`created`: oldest first, `-created`: newest first, `-last_active`: last active first, `name`; default `created`',
  purpose: 'What the file is for',
  split: 'Only logs of this split',
  status: 'Only jobs in this state',
  step: 'Only logs of this step',
  to: 'Last day, included, `YYYY-MM-DD`; default today',
  to_step: 'Highest step; default the last',
  topics:
    'Only these, separated by commas: `job`, `checkpoint`, `log`, `model`, `probe`, `base_model`, `server`; default all',
  x: 'What stretches of equal length are taken along; default `step`',
}

/**
 * @param place where the parameter stands
 * @returns one sentence without a full stop; undefined for a name that has none, which the contract test refuses
 */
export function describeParameter(
  row: Pick<Endpoint, 'parameters'>,
  place: 'path' | 'query',
  name: string,
): string | undefined {
  return row.parameters?.[name] ?? (place === 'path' ? IN_PATH : IN_QUERY)[name]
}
