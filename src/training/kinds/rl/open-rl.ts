/**
 * How an RL job is opened: its trajectory groups and its reference are read.
 */
import { parseExactRow } from '#base/json/exact-json.js'
import { readLines } from '#formats/rows/json-lines.js'
import { createDataNotes, type DataNotes } from '#formats/rows/notes/data-notes.js'
import { isWellFormedJson } from '#formats/rows/notes/json-text.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import { fetchReference, type JobSource, type OpenJob, type TrainingStart } from '../start.js'
import { rlHyperparameters } from './rl-hyperparameters.js'
import { trainRl } from './rl-job.js'
import { planRl } from './rl-outline.js'

/** Longest trajectory group, as JSON; a string of V8 holds little more. */
const MAX_GROUP_BYTES = 500 * 1024 * 1024

export async function openRl(start: TrainingStart<'rl'>): Promise<OpenJob> {
  const { source, job, options, text, padTokenId } = start
  const context = start.contextOf(options)
  const notes = createDataNotes()
  const groups = await readGroups(source, notes)
  const hyperparameters = rlHyperparameters(options)
  const { shapers } = start
  const rows = { groups, notes, hyperparameters, shapers, text, padTokenId, currentStep: job.parent_step }
  const reference = await fetchReference(start)
  return {
    plan: async () => planRl(rows, context),
    train: () => trainRl({ ...rows, reference, rollouts: start.rollouts }, context),
  }
}

async function readGroups(source: JobSource, notes: DataNotes): Promise<TrajectoryGroup[]> {
  const groups: TrajectoryGroup[] = []
  for await (const line of readLines(source.openInput(), { maxLineBytes: MAX_GROUP_BYTES })) {
    if (line.text.trim() === '') continue
    const path = `trajectory_groups[${groups.length}]`
    if (!isWellFormedJson(line.text)) notes.add('lone_surrogate', path)
    groups.push(parseTrajectoryGroup(parseExactRow(line.text), path, { notes }))
  }
  return groups
}
