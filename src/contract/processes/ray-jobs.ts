/**
 * What is read of the list of a Ray cluster's jobs (`GET /api/jobs/` of Ray 2.60.0).
 */
import { z } from 'zod'

export const rayJobsSchema = z
  .array(
    z.object({
      /** Null for jobs that were not submitted but connected. */
      submission_id: z.string().max(1000).nullish(),
      /** PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED. */
      status: z.string().max(100),
      message: z
        .string()
        .max(2 ** 20)
        .nullish(),
    }),
  )
  .max(100_000)
