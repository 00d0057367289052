/**
 * A route's answer out of a file, written to the connection itself, each part given back once it is sent.
 *
 * Through a web stream the parts of a file stay until a garbage collection finds them: a training job's rows, read by its worker, left
 * tens of megabytes in a server that had nothing more to do.
 */
import { Readable } from 'node:stream'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { DIRECT_HEADER } from '#base/util/direct-reads.js'
import { releaseBytes } from '#base/util/release-bytes.js'
import type { OpenedModelFile } from '../operations/base-models/base-model-files.js'
import type { RequestContext } from './environment.js'
import { type Connection, connectionOf } from './event-stream.js'

/** Answers with the file, from an open stream of bytes; closes it, also when the client leaves or asks for the head only. */
export function sendFile(
  c: RequestContext,
  file: Readable,
  headers: Readonly<Record<string, string>>,
  status: 200 | 206 = 200,
): Response {
  if (c.req.method === 'HEAD') {
    file.destroy()
    return c.body(null, status, headers)
  }
  const connection = connectionOf(c)
  if (connection === null) return c.body(Readable.toWeb(file) as ReadableStream, status, headers)
  // what middleware and the route have set is among them
  connection.writeHead(status, Object.fromEntries(c.body(null, 200, headers).headers))
  void writeFile(connection, file, headers['content-length'])
  return RESPONSE_ALREADY_SENT
}

/** Where a file is to go on, as `range: bytes=500-` says; 0 for all other ranges, which may be ignored (RFC 9110). */
export function rangeStart(c: RequestContext): number {
  const start = Number(/^bytes=(\d{1,15})-$/.exec(c.req.header('range') ?? '')?.[1] ?? 0)
  return c.req.method === 'HEAD' ? 0 : start
}

/** A file of a base model from where it was asked for; its digest is that of the whole. */
export function sendModelFile(c: RequestContext, { stream, from, sha256, sizeBytes }: OpenedModelFile): Response {
  const headers = {
    'content-type': 'application/octet-stream',
    'content-length': String(sizeBytes - from),
    'x-content-sha256': sha256,
    'accept-ranges': 'bytes',
  }
  if (from === 0) return sendFile(c, stream, headers)
  return sendFile(c, stream, { ...headers, 'content-range': `bytes ${from}-${sizeBytes - 1}/${sizeBytes}` }, 206)
}

/** A blob: its bytes, or where they are. */
type OpenedBlob = { readonly sha256: string } & ({ readonly stream: Readable } | { readonly link: string })

/** The same of a blob, or 302 to where it can be read, with its digest: whoever asks has said that it can go there. */
export function sendBlob(c: RequestContext, opened: OpenedBlob, type: string): Response {
  const digest = { 'x-content-sha256': opened.sha256 }
  if ('stream' in opened) return sendFile(c, opened.stream, { 'content-type': type, ...digest })
  return c.body(null, 302, { location: opened.link, ...digest })
}

/** Whether whoever asks can read elsewhere, and send no key of ours there. */
export function mayLink(c: RequestContext): boolean {
  return c.req.header(DIRECT_HEADER) !== undefined
}

/**
 * Writes at the reader's pace. Never rejects: a file that cannot be read to its end, or has another length than was announced, cuts the
 * connection.
 */
async function writeFile(connection: Connection, file: Readable, length: string | undefined): Promise<void> {
  let sentBytes = 0
  let goOn: (() => void) | null = null
  const onDrain = (): void => goOn?.()
  const onClose = (): void => {
    file.destroy()
    goOn?.()
  }
  connection.on('drain', onDrain)
  connection.on('close', onClose)
  try {
    if (connection.destroyed) onClose()
    for await (const part of file as AsyncIterable<Uint8Array>) {
      sentBytes += part.length
      if (connection.write(part, () => releaseBytes(part))) continue
      await new Promise<void>((resolve) => {
        goOn = resolve
        // it may have gone while it was written to
        if (connection.destroyed) resolve()
      })
    }
    connection.off('close', onClose)
    if (length === undefined || Number(length) === sentBytes) connection.end()
    else connection.destroy()
  } catch {
    connection.destroy()
  } finally {
    connection.off('drain', onDrain)
    connection.off('close', onClose)
  }
}
