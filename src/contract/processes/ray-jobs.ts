/**
 * What is read of the list of a Ray cluster's jobs (`GET /api/jobs/` of Ray 2.60.0).
 */
import { z } from 'zod'

export const rayJobsSchema = z.array(
  z.object({
    /** Null for jobs that were not submitted but connected. */
    submission_id: z.string().nullish(),
    /** PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED. */
    status: z.string(),
    message: z.string().nullish(),
  }),
)
