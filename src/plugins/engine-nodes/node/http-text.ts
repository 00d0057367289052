/**
 * Bodies of requests to an engine node, within a bound.
 */
import type { IncomingMessage } from 'node:http'
import { AppError } from '#base/errors/errors.js'

/** The longest prompt of any model, every token with its comma, and whole vocabularies of rules beside it. */
const MAX_BODY_BYTES = 64 * 1024 ** 2

/** @throws {AppError} `request_too_large` */
export async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length
    if (length > MAX_BODY_BYTES) {
      throw new AppError('too_large', 'request_too_large', `the body is larger than ${MAX_BODY_BYTES} bytes`)
    }
    parts.push(part)
  }
  return Buffer.concat(parts)
}

export async function readText(request: IncomingMessage): Promise<string> {
  return (await readBytes(request)).toString('utf8')
}
