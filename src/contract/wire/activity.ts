/**
 * What happens on a server, as one stream for a browser or an agent: jobs, checkpoints, logs, models and base models. Ours.
 *
 * An event says that something changed, with the few values a display needs at once; the full state is read from the
 * endpoint of the changed thing.
 */
import { z } from 'zod'
import { listSchema, pageQuerySchema } from './list.js'

/** Events by topic. */
export const ACTIVITY = {
  job: ['job.queued', 'job.started', 'job.gradient_step', 'job.ended'],
  checkpoint: ['checkpoint.created', 'checkpoint.deleted'],
  log: ['log.created'],
  model: ['model.created', 'model.deleted'],
  loop: ['loop.changed'],
  probe: ['probe.answered'],
  base_model: ['base_model.progress'],
  server: ['server.notice'],
} as const
export type ActivityTopic = keyof typeof ACTIVITY
export type ActivityType = (typeof ACTIVITY)[ActivityTopic][number]

export const ACTIVITY_TOPICS = Object.keys(ACTIVITY) as readonly ActivityTopic[]
const ACTIVITY_TYPES = Object.values(ACTIVITY).flat() as [ActivityType, ...ActivityType[]]

/** `job,checkpoint`. */
const topicsSchema = z
  .string()
  .max(200)
  .transform((text, context) => {
    const words = text.split(',').map((word) => word.trim())
    const unknown = words.find((word) => !ACTIVITY_TOPICS.some((topic) => topic === word))
    if (unknown === undefined) return words as ActivityTopic[]
    const message = `Input should be topics of ${ACTIVITY_TOPICS.join(', ')}, separated by commas, not "${unknown}"`
    context.addIssue({ code: 'custom', message, params: { type: 'enum' } })
    return z.NEVER
  })

export const activityQuerySchema = pageQuerySchema.extend({
  topics: topicsSchema.optional(),
  model_id: z.string().max(200).optional(),
})
export type ActivityQuery = z.infer<typeof activityQuerySchema>

export const activitySchema = z.object({
  /** The place in the stream: `Last-Event-ID`, or `after`. */
  id: z.string(),
  /** Beside what happens: `ready`, from here on; `reset`, what was missed is not known any more, so that everything is to be read again. */
  type: z.enum(['ready', 'reset', ...ACTIVITY_TYPES]),
  /** ISO 8601, UTC. */
  created_at: z.string(),
  /** Null for what belongs to no project. */
  project: z.string().nullable(),
  model_id: z.string().nullable(),
  /** Of a job: `job_id`, `kind`, `status`, `attempt`, `gradient_steps`, `num_sequences`, `step`, `error_code`, and `metrics` of its newest gradient step. */
  data: z.record(z.string(), z.json()),
})
export type Activity = z.infer<typeof activitySchema>

export const activityListSchema = listSchema(activitySchema)
