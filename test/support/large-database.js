/**
 * Rows of a large server, written by SQL: many models, one of them with many steps and jobs, its newest job with many gradient steps. For
 * tests and benches of what is read from it; no checkpoint of it can answer.
 */

const id = (kind, n) => `0190000${kind}-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
const idColumn = (kind, n = 'i') => `printf('0190000${kind}-0000-7000-8000-%012x', ${n})`
const KIND = { model: 1, job: 2, event: 3, checkpoint: 5 }

/** The model with all the steps: `default/n0`. */
export const LARGE_MODEL = id(KIND.model, 0)

/**
 * @param sqlite the open database of a data directory whose server does not run
 * @param {{ models: number, jobs: number, steps: number, gradientSteps: number }} counts models in all; jobs and steps of the large one, whose
 *   newest steps the jobs made; gradient steps of its newest job
 * @returns id of that job
 */
export function fillLargeDatabase(sqlite, { models, jobs, steps, gradientSteps }) {
  sqlite.pragma('synchronous = OFF')
  sqlite.pragma('foreign_keys = OFF')
  const insert = (table, columns, values, count) =>
    sqlite
      .prepare(
        `insert into ${table} (${columns}) with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${count})
        select ${values} from n`,
      )
      .run()
  insert(
    'models',
    'id, entity, project, name, base_model, run_id, step, created_at_ms',
    `${idColumn(KIND.model)}, 'local', iif(i = 0, 'default', 'p' || (i % 10)), 'n' || i, 'trainyard/tiny-random', 'r' || i,
     iif(i = 0, ${steps}, 1), 1700000000000 + i`,
    models,
  )
  // each model has a job and a step; the newest jobs are those of the large model
  const columns = `id, entity, project, model_id, kind, status, config, request_digest, event_count, gradient_step_count, step,
    num_sequences, created_at_ms, started_at_ms, ended_at_ms`
  insert(
    'training_jobs',
    columns,
    `${idColumn(KIND.job)}, 'local', 'p' || (i % 10), ${idColumn(KIND.model, 'i + 1')}, 'rl', 'completed', '{}', 'd' || i, 1, 1, 1, 8,
     1700000000000 + i, 1700000000000 + i, 1700000001000 + i`,
    models - 1,
  )
  insert(
    'training_jobs',
    columns,
    `${idColumn(KIND.job, `i + ${models}`)}, 'local', 'default', '${LARGE_MODEL}', 'rl', 'completed', '{}', 'l' || i,
     iif(i = ${jobs - 1}, ${gradientSteps + 1}, 1), iif(i = ${jobs - 1}, ${gradientSteps}, 1), ${steps - jobs + 1} + i, 8,
     1800000000000 + i, 1800000000000 + i, 1800000001000 + i`,
    jobs,
  )
  const numbers = (n) => `json_object('train/reward', (${n} * 7919 % 1000) / 1000.0, 'loss/train', 1.0 / (1 + ${n}),
    'loss/entropy', (${n} % 13) / 13.0, 'loss/kl', (${n} % 7) / 70.0, 'loss/grad_norm', (${n} % 11) / 11.0)`
  const metrics = 'model_id, step, source, metrics, created_at_ms'
  insert('model_metrics', metrics, `'${LARGE_MODEL}', i + 1, 'job', ${numbers('i')}, 1800000000000 + i`, steps)
  insert(
    'model_metrics',
    metrics,
    `${idColumn(KIND.model, 'i + 1')}, 1, 'job', ${numbers('i')}, 1700000000000`,
    models - 1,
  )
  insert(
    'checkpoints',
    'id, model_id, step, kind, job_id, adapter_digest',
    `${idColumn(KIND.checkpoint)}, '${LARGE_MODEL}', ${steps - jobs + 1} + i, 'rl', ${idColumn(KIND.job, `i + ${models}`)}, 'x' || i`,
    jobs,
  )
  for (const name of ['adapter_config.json', 'adapter_model.safetensors']) {
    insert(
      'checkpoint_files',
      'checkpoint_id, name, sha256, size_bytes',
      `${idColumn(KIND.checkpoint)}, '${name}', 'x', 1000`,
      jobs,
    )
  }
  const newest = id(KIND.job, models + jobs - 1)
  insert(
    'events',
    'id, job_id, position, type, data',
    `${idColumn(KIND.event)}, '${newest}', i, iif(i < ${gradientSteps}, 'gradient_step', 'training_ended'),
     iif(i < ${gradientSteps}, json_object('step', i + 1, 'loss', 1.0 / (1 + i), 'entropy', (i % 13) / 13.0),
       json_object('step', ${steps}))`,
    gradientSteps + 1,
  )
  return newest
}
