/**
 * `trainyard jobs get`: what a job is, how far it is, and why it failed.
 */

import type { JsonValue } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { JOB_ARGUMENT, resolveJobId } from '#cli/names/job-reference.js'
import { formatDuration, formatRelativeTime } from '#cli/terminal/format.js'
import { describeReport } from '#cli/terminal/job-report.js'
import { describeProgress } from '#cli/views/watch.js'
import { command } from '#contract/wire/command-words.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'

export const getJob = defineCommand({
  path: ['jobs', 'get'],
  summary: 'Show one training job',
  examples: [
    ['trainyard jobs get', 'the newest job: status, error, configuration'],
    ['trainyard jobs get 4c1d009c --json', 'the one whose id ends like this, as the API returns it'],
  ],
  args: { job: argument.optional(JOB_ARGUMENT) },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard jobs events <job>', 'trainyard jobs cancel <job>'],
  async run(context) {
    const { connect, output, clock, args, signal } = context
    const client = await connect()
    const job = await client.trainingJobs.get(await resolveJobId(context, client, args.job), { signal })
    if (output.mode !== 'human') return output.record(job, job.id, [])
    const name = await client.models.get(job.model_id, { signal }).then(
      (model) => model.name,
      () => job.model_id,
    )
    const resolved = Object.entries(job.resolved_config ?? {}).filter(
      ([key, value]) => value !== null && !(key in job.config),
    )
    const ranMs =
      (job.training_end === null ? clock.nowMs() : Date.parse(job.training_end)) - Date.parse(job.training_start ?? '')
    output.record(job, job.id, [
      ['Job', `${job.id} (${job.kind}) for ${name}`],
      ['Status', describeStatus(job)],
      ...(job.error_message === null
        ? []
        : [['Error', `${job.error_message} (${job.error_code ?? 'unknown'})`] as const]),
      ...describeOptions('Config', Object.entries(job.config)),
      ...describeOptions('Defaults', resolved),
      ...(job.step === null ? [] : [['Checkpoint', `step ${job.step}`] as const]),
      [
        'Started',
        job.training_start === null
          ? 'not yet'
          : `${output.isTerminal ? formatRelativeTime(job.training_start, clock.nowMs()) : job.training_start}, ran ${formatDuration(ranMs)}`,
      ],
      ...(job.worker == null ? [] : [['Worker', describeWorker(job.worker)] as const]),
      ...(job.predicted_end === null || job.predicted_end === undefined
        ? []
        : [['Expected', `to end in ${formatDuration(Date.parse(job.predicted_end) - clock.nowMs())}`] as const]),
      ...describeReport({ report: job.report ?? null }),
    ])
    for (const warning of job.warnings ?? []) output.warning(warning)
    if (job.error_code === 'non_finite_loss')
      output.hint('lower --learning-rate; trainyard jobs events shows the steps before')
    else if (job.status === 'failed') output.hint(`${command`trainyard jobs events ${job.id}`} shows the steps before`)
    else if (job.status === 'running') output.hint(command`trainyard jobs watch ${job.id}`)
  },
})

function describeOptions(label: string, options: readonly (readonly [string, JsonValue])[]) {
  const texts = options.map(([key, value]) => `${key} ${JSON.stringify(value)}`)
  return texts.length === 0 ? [] : [[label, texts.join(', ')] as const]
}

/** `box: onnx on cpu, trainyard 0.1.0, onnxruntime 1.30.0`. */
function describeWorker({ name, trainer, device, versions }: NonNullable<TrainingJob['worker']>): string {
  const programs = Object.entries(versions).map(([program, version]) => `${program} ${version}`)
  return [`${name}: ${trainer} on ${device}`, ...programs].join(', ')
}

function describeStatus(job: TrainingJob): string {
  const progress = describeProgress(job)
  const status = job.is_cancel_requested && job.status === 'running' ? 'cancelling' : job.status
  return progress === null ? status : `${status}, gradient step ${progress.replace('/', ' of ')}`
}
