/**
 * Reads a body with `trajectory_groups` in slices: checks each group, writes it as it was sent to a file of lines, and keeps only
 * what metrics need. Runs in a thread, so it reads and writes without waiting.
 */
import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { AppError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import type { JsonValue } from '#base/util/json.js'
import { releaseBytes } from '#base/util/release-bytes.js'
import type { JsonBody } from '#contract/endpoints/endpoint.js'
import { METRICS_OF_CLIENTS } from '#contract/wire/maxima.js'
import { countBatch } from '#formats/rows/metrics.js'
import { createDataNotes } from '#formats/rows/notes/data-notes.js'
import { isWellFormedJson } from '#formats/rows/notes/json-text.js'
import { type ParseOptions, parseTrajectoryGroup } from '#formats/rows/parse.js'
import { encodeTotals, splitTotals } from '#formats/rows/split-metrics.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import type { BodyOf } from './bodies.js'
import { createJsonReader, type JsonInput } from './json-reader.js'
import { ignoredFieldsOf, parseWith } from './parse-body.js'
import type { BodySource, GroupsRead, GroupsTask } from './thread-protocol.js'

/**
 * The names of the metrics of one body of trajectory groups: a job's checkpoint has them all, so there is a most of them
 * (`METRICS_OF_CLIENTS`). Trajectories and groups have names apart, since those of groups get a prefix.
 */
interface MetricNames {
  /** @param path of the metrics */
  add(metrics: Readonly<Record<string, number>>, of: 'group' | 'trajectory', path: string): void
  /** The first that is beyond a maximum. */
  problem(): GroupsRead['unfitMetrics']
}

function createMetricNames(): MetricNames {
  const { names: most, nameLength } = METRICS_OF_CLIENTS
  const names = { group: new Set<string>(), trajectory: new Set<string>() }
  let problem: GroupsRead['unfitMetrics'] = null

  return {
    add: (metrics, of, path) => {
      for (const name of Object.keys(metrics)) {
        if (problem !== null) return
        names[of].add(name)
        const count = names.group.size + names.trajectory.size
        if (name.length > nameLength) {
          const shown = JSON.stringify(`${name.slice(0, 40)}…`)
          problem = {
            path,
            problem: `has the name ${shown} of ${name.length} characters, expected at most ${nameLength}`,
          }
        } else if (count > most) {
          const shown = JSON.stringify(name.slice(0, 40))
          problem = {
            path,
            problem: `brings with ${shown} the names of metrics to ${count}, expected at most ${most} in all groups of a job`,
          }
        }
      }
    },
    problem: () => problem,
  }
}

/** Bytes read per slice. */
export const SLICE_BYTES = 512 * 1024
const WRITE_BYTES = 256 * 1024
/** Longer lines are written as they are; shorter ones are copied, so that many of them are one write. */
const COPIED_BYTES = 32 * 1024
const LINE_FEED = 0x0a
const LINE_END = Uint8Array.of(LINE_FEED)
const CARRIAGE_RETURN = 0x0d
/** Most trajectories of one body: what is kept of each for metrics stays below a few hundred MB. */
const MAX_TRAJECTORIES = 1_000_000

export interface GroupReading {
  /** Reads one slice. @returns what came of it once the body is at its end, else null */
  step(): GroupsRead | null
  /** Memory of the group that is open, bytes, roughly. */
  heldBytes(): number
  /** Closes files and removes what was written. */
  discard(): void
}

/** @param kind of the body that the task names */
export function createGroupReading(task: Omit<GroupsTask, 'type'>, kind: JsonBody): GroupReading {
  const chunks = readSlices(task.source)
  const target = createLineFile(task.targetPath)
  const kept: TrajectoryGroup[] = []
  let trajectoryCount = 0
  let newest: GroupsRead['newest'] = null
  let largestTokenId: GroupsRead['largestTokenId'] = null
  const metricNames = createMetricNames()
  const notes = createDataNotes()
  const options: ParseOptions = {
    notes,
    noteLargestId: (id, path) => {
      if (largestTokenId === null || id > largestTokenId.id) largestTokenId = { id, path }
    },
  }
  const reader = createJsonReader({
    ...kind.reader,
    maxElementBytes: task.maxGroupBytes,
    elements: { key: 'trajectory_groups', onElement: add },
  })

  function add(value: JsonInput, index: number, text: Uint8Array | null): void {
    const path = `trajectory_groups[${index}]`
    if (text !== null && hasLoneSurrogate(text)) notes.add('lone_surrogate', path)
    const group = parseTrajectoryGroup(value, path, options)
    trajectoryCount += group.trajectories.length
    if (trajectoryCount > MAX_TRAJECTORIES) {
      throw new AppError('too_large', 'request_too_large', `the body has more than ${MAX_TRAJECTORIES} trajectories`, {
        hint: 'send the groups in several requests',
      })
    }
    metricNames.add(group.metrics, 'group', `${path}.metrics`)
    group.trajectories.forEach((trajectory, i) => {
      metricNames.add(trajectory.metrics, 'trajectory', `${path}.trajectories[${i}].metrics`)
      noteVersion(trajectory.initialPolicyVersion, `${path}.trajectories[${i}].initial_policy_version`)
      noteVersion(trajectory.finalPolicyVersion, `${path}.trajectories[${i}].final_policy_version`)
    })
    const trajectories = group.trajectories.map((trajectory) => ({ ...trajectory, histories: [], metadata: {} }))
    kept.push({ ...group, trajectories, metadata: {} })
    target.writeLine(toLine(value as JsonValue, text, path))
  }

  function noteVersion(version: number | null, path: string): void {
    if (version !== null && (newest === null || version > newest.version)) newest = { version, path }
  }

  function finish(): GroupsRead {
    const { schema } = kind
    const body = reader.finish()
    const request = parseWith(schema, body, 'body') as BodyOf<typeof task.name>
    const ignoredFields = ignoredFieldsOf(schema, body)
    const totals = 'split' in request ? encodeTotals(splitTotals(kept, request.split)) : null
    return {
      request,
      ignoredFields,
      ...target.end(),
      newest,
      largestTokenId,
      unfitMetrics: metricNames.problem(),
      counts: countBatch(kept),
      notes: notes.sentences(),
      totals,
    }
  }

  return {
    heldBytes: reader.heldBytes.bind(reader),
    step: () => {
      const { done, value } = chunks.next()
      if (done === true) return finish()
      reader.push(value)
      return null
    },
    discard: () => {
      chunks.return(undefined)
      target.discard()
    },
  }
}

/** The bytes of a source, a slice at a time; the next slice overwrites the last one. */
export function* readSlices(source: BodySource): Generator<Uint8Array, undefined, undefined> {
  if ('bytes' in source) {
    for (let i = 0; i < source.bytes.length; i += SLICE_BYTES) yield source.bytes.subarray(i, i + SLICE_BYTES)
    return
  }
  const file = openSync(source.path, 'r')
  const buffer = Buffer.allocUnsafeSlow(SLICE_BYTES)
  try {
    for (;;) {
      const length = readSync(file, buffer)
      if (length === 0) return
      yield buffer.subarray(0, length)
    }
  } finally {
    releaseBytes(buffer)
    closeSync(file)
  }
}

/** Most groups have no such escape, and are not decoded for it. */
function hasLoneSurrogate(text: Uint8Array): boolean {
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength)
  if (!bytes.includes('\\ud') && !bytes.includes('\\uD')) return false
  return !isWellFormedJson(bytes.toString('utf8'))
}

/** The group as it was sent, unless that has line breaks between its values. */
function toLine(value: JsonValue, text: Uint8Array | null, path: string): Uint8Array {
  if (text !== null && !text.includes(CARRIAGE_RETURN) && !text.includes(LINE_FEED)) return text
  try {
    return Buffer.from(stringifyExact(value), 'utf8')
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    // numbers may be longer written out than they were sent
    throw new AppError('too_large', 'request_too_large', `${path} is too large to be written as one line`, {
      param: path,
      cause,
    })
  }
}

/** A new file and the digest of what was written to it. */
function createLineFile(path: string) {
  const file = openSync(path, 'wx', 0o600)
  const hash = createHash('sha256')
  let pending: Uint8Array[] = []
  let pendingBytes = 0
  let sizeBytes = 0
  let isOpen = true

  function put(bytes: Uint8Array): void {
    hash.update(bytes)
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done)
  }

  function flush(): void {
    if (pendingBytes === 0) return
    const joined = Buffer.concat(pending)
    pending = []
    pendingBytes = 0
    put(joined)
    releaseBytes(joined)
  }

  function close(): void {
    if (isOpen) closeSync(file)
    isOpen = false
  }

  return {
    writeLine: (text: Uint8Array) => {
      sizeBytes += text.length + 1
      if (text.length > COPIED_BYTES) {
        flush()
        put(text)
        put(LINE_END)
        return
      }
      const line = Buffer.allocUnsafe(text.length + 1)
      line.set(text)
      line[text.length] = LINE_FEED
      pending.push(line)
      pendingBytes += line.length
      if (pendingBytes >= WRITE_BYTES) flush()
    },
    end: () => {
      flush()
      close()
      return { sha256: hash.digest('hex'), sizeBytes }
    },
    discard: () => {
      close()
      rmSync(path, { force: true })
    },
  }
}
