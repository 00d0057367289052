/**
 * Bodies with `trajectory_groups`: each group is checked and written to disk as it arrives.
 */
import type { z } from '@hono/zod-openapi'
import type { TrainingJobService } from '#service/operations/training/training-jobs.js'
import type { GroupSink } from '#service/operations/training/trajectory-groups.js'
import { BODY_LIMITS, readJson } from './body.js'
import type { RequestContext } from './environment.js'

/** Most objects and arrays, and values, of one group: a million sampled tokens with their logprobs. */
const MAX_GROUP_CONTAINERS = 4_000_000
const MAX_GROUP_VALUES = 20_000_000

/**
 * Reads the body (`isKept`: the groups' rewards and metrics are wanted afterwards), then runs `action` with the rest of it and the groups; drops the groups if anything fails.
 */
export async function readGroups<S extends z.ZodType, T>(
  c: RequestContext,
  jobs: Pick<TrainingJobService, 'openGroups'>,
  { schema, isKept }: { readonly schema: S; readonly isKept: boolean },
  action: (request: z.output<S>, groups: GroupSink) => Promise<T>,
): Promise<T> {
  const groups = await jobs.openGroups({ isKept })
  try {
    const request = await readJson(c, schema, {
      maxBytes: BODY_LIMITS.trajectories,
      maxContainers: MAX_GROUP_CONTAINERS,
      maxValues: MAX_GROUP_VALUES,
      elements: { key: 'trajectory_groups', onElement: groups.add },
      onChunk: groups.flush,
    })
    return await action(request, groups)
  } finally {
    await groups.abort()
  }
}
