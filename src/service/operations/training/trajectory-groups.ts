/**
 * Receives trajectory groups one by one while a body arrives: checks each, writes it to a blob as one JSON line, and keeps
 * only what metrics need, so that memory does not grow with the body.
 */
import { DataError } from '#base/errors.js'
import type { BlobRef, BlobStore, BlobWriter } from '#service/storage/blobs.js'
import { parseTrajectoryGroup } from '#training/data/parse.js'
import type { TrajectoryGroup } from '#training/data/trajectory.js'

export interface GroupSink {
  /** Checks element `index` of `trajectory_groups`. @throws {DataError} with the path of the offending element */
  add(value: unknown, index: number): void
  /** Writes what `add` has collected; call it between chunks, so that reading is no faster than the disk. */
  flush(): Promise<void>
  /** Publishes the blob. */
  commit(): Promise<BlobRef>
  /** Drops everything; harmless after `commit`. */
  abort(): Promise<void>
  /**
   * Refuses a policy version the model has not reached; called once the body's `model_id` is known.
   *
   * @throws {DataError} `invalid_policy_version` with the path
   */
  checkPolicyVersions(currentStep: number): void
  /** The groups without their histories, if they are kept: enough for metrics. */
  groups(): readonly TrajectoryGroup[]
}

/** @param options.isKept false when nobody will ask for `groups()` */
export async function createGroupSink(blobs: BlobStore, options: { readonly isKept: boolean }): Promise<GroupSink> {
  const writer: BlobWriter = await blobs.createWriter()
  const kept: TrajectoryGroup[] = []
  let lines: string[] = []
  let newest: { readonly version: number; readonly path: string } | null = null

  function noteVersion(version: number | null, path: string): void {
    if (version !== null && (newest === null || version > newest.version)) newest = { version, path }
  }

  return {
    add: (value, index) => {
      const path = `trajectory_groups[${index}]`
      const group = parseTrajectoryGroup(value, path)
      group.trajectories.forEach((trajectory, i) => {
        noteVersion(trajectory.initialPolicyVersion, `${path}.trajectories[${i}].initial_policy_version`)
        noteVersion(trajectory.finalPolicyVersion, `${path}.trajectories[${i}].final_policy_version`)
      })
      if (options.isKept) {
        const trajectories = group.trajectories.map((trajectory) => ({ ...trajectory, histories: [] }))
        kept.push({ ...group, trajectories })
      }
      lines.push(JSON.stringify(value))
    },
    flush: async () => {
      const ready = lines
      lines = []
      for (const line of ready) await writer.write(`${line}\n`)
    },
    commit: () => writer.commit(),
    abort: () => writer.abort(),
    checkPolicyVersions: (currentStep) => {
      const found: { readonly version: number; readonly path: string } | null = newest
      if (found === null || found.version <= currentStep) return
      throw new DataError(
        'invalid_policy_version',
        `${found.path} must be at most the model's step ${currentStep}, got ${found.version}`,
        { param: found.path },
      )
    },
    groups: () => kept,
  }
}
