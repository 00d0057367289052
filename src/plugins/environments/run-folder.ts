/**
 * The folder of a run (`--out`): what it is of, the groups of each step, and what became of them. A run that was killed goes
 * on from it: with the groups that are on the disk, and the job under the same key, so that no step is gathered or trained
 * twice.
 */
import { mkdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ConflictError, InvalidRequestError } from '#base/errors/errors.js'
import { toWriteError } from '#base/errors/file-errors.js'
import { parseExactRow, stringifyExact } from '#base/json/exact-json.js'
import { systemIds } from '#base/util/ids.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { writeWhole } from '#base/write-whole.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { type Choice, type Message, type RolloutException, Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'

/** Bytes of each file that are read. */
const MOST_BYTES = 1024 * 1024 * 1024

/** What must be the same for a run to go on. */
interface RunIdentity {
  readonly address: string
  readonly environment: { readonly name: string; readonly version: string; readonly digest: string }
  readonly model: string
  readonly options: JsonObject
}

export interface RunFolder {
  readonly id: string
  /** Whether there was a run in it. */
  readonly isResumed: boolean
  /** Lines of `steps.jsonl` so far. */
  readonly lines: readonly JsonObject[]
  append(line: JsonObject): Promise<void>
  readGroups(step: number): Promise<readonly TrajectoryGroup[] | null>
  writeGroups(step: number, groups: readonly TrajectoryGroup[]): Promise<void>
}

/** @throws {ConflictError} `run_differs` where the folder holds a run of something else */
export async function openRunFolder(path: string, identity: RunIdentity): Promise<RunFolder> {
  const [about, stepsPath] = [join(path, 'run.json'), join(path, 'steps.jsonl')]
  const known = await readJson(about)
  const { environment, ...others } = identity
  const of = { ...others, environment: { ...environment } }
  const id = known === null ? systemIds.uuid() : String(known['id'])
  if (known === null) {
    await mkdir(join(path, 'groups'), { recursive: true }).catch((error: unknown) => {
      throw toWriteError(error, path) ?? error
    })
    await writeWhole(about, `${JSON.stringify({ object: 'environment_run', id, ...of }, null, 2)}\n`)
  } else {
    const name = firstDifference(known, of)
    if (name !== null) {
      throw new ConflictError('run_differs', `${path} holds a run with another ${name}`, {
        hint: 'give --out another folder, or the options of that run: they stand in its run.json',
      })
    }
  }
  const lines = [...(await readLines(stepsPath))]
  return {
    id,
    isResumed: known !== null,
    lines,
    async append(line) {
      lines.push(line)
      // the whole file, so that no line is ever half there
      await writeWhole(
        stepsPath,
        lines.map((each) => `${JSON.stringify(each)}\n`),
      )
    },
    readGroups: (step) => readGroups(join(path, 'groups', `${step}.jsonl`)),
    writeGroups: (step, groups) =>
      writeWhole(
        join(path, 'groups', `${step}.jsonl`),
        groups.map((each) => `${stringifyExact(each.toJSON())}\n`),
      ),
  }
}

/** What of a run is another: the dotted name of its first member that is; null: nothing. */
function firstDifference(known: JsonObject, wanted: JsonObject, before = ''): string | null {
  for (const name of Object.keys(wanted)) {
    const [ours, theirs] = [wanted[name], known[name]]
    if (isJsonObject(ours) && isJsonObject(theirs)) {
      const inside = firstDifference(theirs, ours, `${before}${name}.`)
      if (inside !== null) return inside
    } else if (JSON.stringify(ours) !== JSON.stringify(theirs)) return `${before}${name}`
  }
  return null
}

async function readIfThere(path: string): Promise<string | null> {
  const facts = await stat(path).catch(() => null)
  if (facts === null) return null
  if (facts.size > MOST_BYTES) {
    throw new InvalidRequestError('run_invalid', `${path} has ${facts.size} bytes, more than is read of a run`)
  }
  return await readFile(path, 'utf8')
}

async function readJson(path: string): Promise<JsonObject | null> {
  const text = await readIfThere(path)
  return text === null ? null : parse(text, path)
}

async function readLines(path: string): Promise<readonly JsonObject[]> {
  const text = (await readIfThere(path)) ?? ''
  return text.split('\n').flatMap((line) => (line === '' ? [] : [parse(line, path)]))
}

function parse(text: string, path: string): JsonObject {
  try {
    const value = parseExactRow(text)
    if (isJsonObject(value)) return value
  } catch {
    // said below
  }
  throw new InvalidRequestError('run_invalid', `${path} is no file of a run`, {
    hint: 'give --out another folder, or delete the file to do over what it holds',
  })
}

async function readGroups(path: string): Promise<readonly TrajectoryGroup[] | null> {
  const text = await readIfThere(path)
  if (text === null) return null
  const rows = text.split('\n').flatMap((line) => (line === '' ? [] : [parse(line, path)]))
  return rows.map(restoreGroup)
}

/** A group as it was written: what is sent of it is what was sent before. */
function restoreGroup(row: JsonObject): TrajectoryGroup {
  const { trajectories = [], exceptions = [], min_reward: least, max_reward: most, metadata = {} } = row as StoredGroup
  const rewardRange: RewardRange | null = least === undefined || most === undefined ? null : [least, most]
  return new TrajectoryGroup(
    trajectories.map((each) => new StoredTrajectory(each)),
    { exceptions, rewardRange, metadata },
  )
}

interface StoredGroup {
  readonly trajectories?: readonly (JsonObject & StoredEpisode)[]
  readonly exceptions?: readonly RolloutException[]
  readonly min_reward?: number
  readonly max_reward?: number
  readonly metadata?: JsonObject
}

interface StoredEpisode {
  readonly messages_and_choices?: readonly (Message | Choice)[]
  readonly reward?: number
  readonly metrics?: Readonly<Record<string, number | boolean>>
}

class StoredTrajectory extends Trajectory {
  readonly #row: JsonObject & StoredEpisode

  constructor(row: JsonObject & StoredEpisode) {
    super()
    this.#row = row
    this.reward = row.reward ?? 0
    Object.assign(this.metrics, row.metrics)
    append(this.histories[0]?.items ?? [], row.messages_and_choices ?? [])
  }

  override toJSON(): JsonObject {
    return this.#row
  }
}
