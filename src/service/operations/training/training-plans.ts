/**
 * Plans of training jobs: the same checks as for a job, then a process that runs the job's own code up to its first step.
 * Nothing is stored that stays.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { optionWarnings, rateWarnings } from '#contract/jobs/option-notes.js'
import { pluginsNeeded } from '#contract/jobs/plugin-options.js'
import { PARENT_FILES, type WorkerJob } from '#contract/processes/worker.js'
import { EXAMPLES_KIND, type JobKind } from '#contract/wire/job-words.js'
import { jobReportSchema } from '#contract/wire/training/job-report.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import { checkpointTitle } from '#formats/checkpoint-manifest.js'
import { templateKwargsOf } from '#service/queue/template-kwargs.js'
import { toLocalFiles } from '#service/storage/blobs.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { listMeasuredJobs } from '#service/storage/jobs/measured.js'
import type { ModelRecord } from '#service/storage/models.js'
import { countCompletedJobs } from '#service/storage/training-jobs.js'
import type { Principal, ServiceContext } from '../context.js'
import { keepWarnings } from '../models/kept-checkpoints.js'
import { dataWarnings } from './data-warnings.js'
import { type CheckedJob, type JobRequestContext, type JobRequests, withCheckedJob } from './job-requests.js'

export interface TrainingPlanService {
  plan<K extends JobKind>(
    kind: K,
    principal: Principal,
    request: JobRequests[K],
    signal: AbortSignal,
  ): Promise<TrainingPlan>
}

/** What it works with. */
type Context = JobRequestContext &
  Pick<ServiceContext, 'ids' | 'planner' | 'preparedDir' | 'leaseMs' | 'resumeIntervalMs' | 'keepRule'>

export function createTrainingPlanService(context: Context): TrainingPlanService {
  const { blobs } = context

  async function plan(
    { keyId }: Principal,
    { kind, model, config, resolvedConfig, baseParameters, files }: CheckedJob,
    signal: AbortSignal,
  ): Promise<TrainingPlan> {
    const base = context.baseModels.find((entry) => entry.name === model.baseModel)
    if (base === undefined) {
      throw new NotFoundError('base_model_not_found', `base model "${model.baseModel}" is not served here`)
    }
    const parent = await findCheckpoint(context.db, model.id, model.step)
    const templateKwargs = templateKwargsOf(resolvedConfig, parent)
    // an optimizer's state changes nothing that is planned
    const parentFiles = (parent?.files ?? []).filter(({ name }) => name !== 'optimizer.safetensors')
    const job: WorkerJob = {
      id: context.ids.uuid(),
      kind,
      attempt: 1,
      model_id: model.id,
      model_name: model.name,
      parent_step: parent?.step ?? 0,
      parent_kind: parent?.kind ?? null,
      parent_files: PARENT_FILES.filter((name) => parentFiles.some((file) => file.name === name)),
      parent_digests: {},
      reference_files: [],
      times_shown: await countCompletedJobs(context.db, model.id, EXAMPLES_KIND),
      has_validation: files.validationPath !== null,
      base_model: { name: base.name },
      lost_tokens: await context.modelFacts.lostTokensOf(base),
      config: { ...resolvedConfig } as WorkerJob['config'],
      plugins: pluginsNeeded(kind, resolvedConfig),
      template_kwargs: templateKwargs as WorkerJob['config'],
      keeps_rollouts: false,
      lease_seconds: context.leaseMs / 1000,
      resume_seconds: context.resumeIntervalMs / 1000,
      resume: null,
    }
    const findings = await context.planner.plan(
      keyId,
      {
        job,
        folders: { base_model: base.sourcePath, prepared: context.preparedDir, fetched: null },
        ...files,
        parentFiles: await toLocalFiles(blobs, checkpointTitle(model.name, parent?.step ?? 0), parentFiles),
        earlier: await listEarlier(kind, model),
      },
      signal,
    )
    return {
      object: 'training_plan',
      model_id: model.id,
      kind,
      config: { ...config } as TrainingPlan['config'],
      resolved_config: { ...resolvedConfig } as TrainingPlan['config'],
      chat_template_kwargs: templateKwargs as TrainingPlan['config'],
      ...findings,
      warnings: [
        ...optionWarnings(kind, config, null),
        ...dataWarnings(kind, { ...findings.started }),
        ...rateWarnings(kind, resolvedConfig, baseParameters),
        ...findings.warnings,
        ...(await keepWarnings(context, model)),
        ...(await context.modelFacts.factsOf(base)).warnings.map((warning) => `base model ${base.name}: ${warning}`),
      ],
    }
  }

  /** Reports of the latest completed jobs of the entity on the same base model. */
  async function listEarlier(kind: JobKind, { entity, baseModel }: ModelRecord) {
    const jobs = await listMeasuredJobs(context.db, { entity, baseModel, kind })
    return jobs.flatMap(({ report, precision }) => {
      const parsed = jobReportSchema.safeParse(report)
      return parsed.success ? [{ report: parsed.data, precision }] : []
    })
  }

  return {
    plan: async (kind, principal, request, signal) =>
      await withCheckedJob(kind, { context, principal }, request, (job) => plan(principal, job, signal)),
  }
}
