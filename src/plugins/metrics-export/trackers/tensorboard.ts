/**
 * Event files of TensorBoard: `DIR/entity/project/model/events.out.tfevents.…`, a run for each model.
 *
 * The file of a model is written anew when its run is opened, from its first step on: so a restart leaves no point twice. A
 * record is a length, its checksum, an `Event` of tensorflow/core/util/event.proto, its checksum
 * (tensorflow/core/lib/io/record_writer.h); checksums are CRC-32C (RFC 3720, appendix B.4), masked as record_writer.h does.
 */
import { appendFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import type { Point, Tracker } from './tracker.js'

/** Bytes are those of the second version of the format. */
const FILE_VERSION = 'brain.Event:2'
/** How files of ours end, and no other program's: those alone are replaced. */
const OURS = '.trainyard'

export function createTensorboard(place: string): Tracker {
  const root = resolve(place)
  return {
    name: `tensorboard=${place}`,
    open: async ({ entity, project, name, createdAtMs }) => {
      const folder = join(root, asFileName(entity), asFileName(project), asFileName(name))
      await mkdir(folder, { recursive: true })
      for (const file of await readdir(folder)) {
        if (file.startsWith('events.out.tfevents.') && file.endsWith(OURS)) await rm(join(folder, file))
      }
      const seconds = String(Math.floor(createdAtMs / 1000)).padStart(10, '0')
      const path = join(folder, `events.out.tfevents.${seconds}${OURS}`)
      await writeFile(path, toRecord(eventAt(createdAtMs).string(3, FILE_VERSION)))
      return {
        add: async (points) => {
          if (points.length > 0) await appendFile(path, Buffer.concat(points.map((point) => toRecord(toEvent(point)))))
        },
        setRunning: async () => undefined,
      }
    },
  }
}

/** Names of entities, projects and models have no slash of their own; what a folder cannot be called is escaped. */
const asFileName = (name: string): string =>
  encodeURIComponent(name).replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length))

const eventAt = (atMs: number): ProtobufWriter => new ProtobufWriter().double(1, atMs / 1000)

function toEvent({ key, step, value, atMs }: Point): ProtobufWriter {
  const summary = new ProtobufWriter().message(1, new ProtobufWriter().string(1, key).float(2, value))
  return eventAt(atMs).integer(2, step).message(5, summary)
}

function toRecord(event: ProtobufWriter): Buffer {
  const data = event.finish()
  const record = Buffer.alloc(data.length + 16)
  record.writeBigUInt64LE(BigInt(data.length), 0)
  record.writeUInt32LE(maskedChecksum(record.subarray(0, 8)), 8)
  record.set(data, 12)
  record.writeUInt32LE(maskedChecksum(data), 12 + data.length)
  return record
}

/** The polynomial of CRC-32C, bits reversed. */
const CASTAGNOLI = 0x82f63b78
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte
  for (let bit = 0; bit < 8; bit += 1) rest = (rest >>> 1) ^ (rest % 2 === 1 ? CASTAGNOLI : 0)
  return rest
})

function maskedChecksum(bytes: Uint8Array): number {
  let sum = 0xffffffff
  for (const byte of bytes) sum = (TABLE[(sum ^ byte) & 0xff] ?? 0) ^ (sum >>> 8)
  sum = ~sum >>> 0
  return (((sum >>> 15) | (sum << 17)) + 0xa282ead8) >>> 0
}
