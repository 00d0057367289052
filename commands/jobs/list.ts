/**
 * `trainyard jobs list`: training jobs, newest first as the service orders them.
 */

import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { askedNamespace, hintConfiguredProject, nextPageCommand, pageFlags } from '#cli/command/page-flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'
import type { Column } from '#cli/terminal/table.js'
import { describeProgress } from '#cli/views/watch.js'
import { JOB_KINDS, JOB_STATUSES } from '#contract/wire/job-words.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'
import { collectPages, eachItem } from '#sdk/client/pages.js'

export const listJobs = defineCommand({
  path: ['jobs', 'list'],
  summary: 'List training jobs',
  details: 'Of every project, whichever is configured; --project shows one.',
  examples: [
    ['trainyard jobs list', 'the first page'],
    ['trainyard jobs list --model email-agent --status failed', 'failed jobs of one model'],
    ['trainyard jobs list -q --status running | xargs trainyard jobs wait', 'wait for all running jobs'],
  ],
  namespace: ['project', 'entity'],
  args: {},
  flags: {
    model: flag.text('--model <model>', 'only jobs of this model'),
    status: flag.choice(JOB_STATUSES)('--status <status>', 'queued, running, completed, failed or cancelled'),
    kind: flag.choice(JOB_KINDS)('--kind <kind>', 'rl, sft or dpo'),
    ...pageFlags,
  },
  exits: ['not_found'],
  next: ['trainyard jobs get <job>'],
  async run(context) {
    const { connect, config, output, clock, flags, signal } = context
    const client = await connect()
    const reference = flags.model === undefined ? null : parseWholeModel(flags.model)
    const model = reference === null ? null : await findModel(reference, { ...context, client })
    // with --model they say which model is meant, and its jobs are all of its project
    const asked = askedNamespace(config)
    const filter = { model_id: model?.id, status: flags.status, kind: flags.kind, ...(model === null ? asked : {}) }
    const { limit, after } = flags
    const page = flags.all
      ? await collectPages((query) => client.trainingJobs.list({ ...filter, ...query }, { signal }), { after })
      : await client.trainingJobs.list({ ...filter, limit, after }, { signal })
    const models = output.mode === 'human' ? await modelsOf(client, page.data, signal) : new Map<string, Model>()
    output.list(page, toColumns(models, clock.nowMs()), {
      isWide: flags.wide,
      nextCommand: nextPageCommand('jobs list', page, {
        '--model': flags.model,
        '--status': flags.status,
        '--kind': flags.kind,
        '--limit': limit,
        '--project': asked.project,
        '--entity': asked.entity,
      }),
      empty: 'no jobs; trainyard train sft <model> --file data.jsonl starts one',
    })
    if (model === null) hintConfiguredProject(config, output)
  },
})

function toColumns(models: ReadonlyMap<string, Model>, nowMs: number): readonly Column<TrainingJob>[] {
  const figure = (job: TrainingJob, topic: string): number | null => job.report?.facts[topic]?.['mean'] ?? null
  return [
    { header: 'status', kind: 'status', get: (job) => job.status },
    { header: 'kind', get: (job) => job.kind, rank: 2 },
    { header: 'project', get: (job) => models.get(job.model_id)?.project, canShrink: true, rank: 5 },
    { header: 'model', kind: 'name', get: (job) => models.get(job.model_id)?.name ?? job.model_id, canShrink: true },
    { header: 'progress', get: describeProgress, rank: 0 },
    { header: 'reward', kind: 'number', get: (job) => figure(job, 'reward'), rank: 3 },
    { header: 'loss', kind: 'number', get: (job) => figure(job, 'loss'), rank: 4 },
    { header: 'started', kind: 'time', get: (job) => job.training_start ?? job.created_at, rank: 1 },
    { header: 'duration', kind: 'duration', get: (job) => durationMs(job, nowMs), rank: 6 },
    { header: 'id', kind: 'shortId', get: (job) => job.id },
  ]
}

function durationMs(job: TrainingJob, nowMs: number): number | null {
  if (job.training_start === null) return null
  return (job.training_end === null ? nowMs : Date.parse(job.training_end)) - Date.parse(job.training_start)
}

/** Names and projects for people; a model deleted since keeps its id. */
async function modelsOf(
  client: Client,
  jobs: readonly TrainingJob[],
  signal: AbortSignal,
): Promise<Map<string, Model>> {
  const wanted = new Set(jobs.map((job) => job.model_id))
  const models = new Map<string, Model>()
  if (wanted.size === 0) return models
  for await (const model of eachItem((query) => client.models.list(query, { signal }))) {
    if (wanted.has(model.id)) models.set(model.id, model)
    if (models.size === wanted.size) break
  }
  return models
}
