/**
 * The training worker's side of the protocol of training sessions (`contract/processes/training-session.ts`).
 */
import { CheckpointError } from '#base/errors/errors.js'
import { type FileContent, sha256Of, sizeOf } from '#base/util/file-content.js'
import { decodeFrame, encodeFrame } from '#base/util/frame.js'
import { type ResumedBody, rangeHeaders, readResumed } from '#base/util/resumed-body.js'
import {
  type SessionFile,
  type SessionOrder,
  type SessionReport,
  sessionOrderSchema,
  type TrainingSessionSpec,
  trainingSessionSpecSchema,
} from '#contract/processes/training-session.js'
import { type BaseModelFiles, baseModelFilesSchema } from '#contract/processes/worker.js'
import { createFencedRequests, type WorkerIdentity } from '../fenced-requests.js'
import { fetchFile } from '../read-files.js'

const BYTES = { 'content-type': 'application/octet-stream' }

export interface SessionClient {
  getSession(): Promise<TrainingSessionSpec>
  getBaseModelFiles(): Promise<BaseModelFiles>
  openBaseModelFile(name: string, from: number): Promise<ResumedBody>
  /** @throws {CheckpointError} `checkpoint_corrupt` if the bytes do not have the digest */
  getFile(file: SessionFile): Promise<FileContent>
  putFile(name: string, content: FileContent): Promise<SessionFile>
  /** Reports the last order and waits for the next. */
  turn(
    report: SessionReport,
    output?: Uint8Array,
  ): Promise<{ readonly order: SessionOrder; readonly bytes: Uint8Array }>
}

export function createSessionClient(identity: WorkerIdentity): SessionClient {
  const send = createFencedRequests(identity)
  return {
    getSession: async () => trainingSessionSpecSchema.parse(await (await send('GET', '')).json()),
    getBaseModelFiles: async () => baseModelFilesSchema.parse(await (await send('GET', '/base-model')).json()),
    openBaseModelFile: async (name, from) =>
      readResumed(await send('GET', `/base-model/${name}`, { headers: rangeHeaders(from) })),
    getFile: async ({ name, sha256 }) => {
      const { bytes } = await fetchFile(send, `/files/${sha256}`)
      if (sha256Of(bytes) === sha256) return bytes
      throw new CheckpointError('checkpoint_corrupt', `"${name}" of the training session does not have its digest`)
    },
    putFile: async (name, content) => {
      const sha256 = sha256Of(content)
      await send('PUT', `/files/${sha256}`, { body: content, headers: BYTES })
      return { name, sha256, size_bytes: sizeOf(content) }
    },
    turn: async (report, output) => {
      const response = await send('POST', '/turn', { body: encodeFrame(report, output), headers: BYTES })
      const { head, bytes } = decodeFrame(new Uint8Array(await response.arrayBuffer()))
      return { order: sessionOrderSchema.parse(head), bytes }
    },
  }
}
