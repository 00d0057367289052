/**
 * What a client is told whose request cannot be read: no route has seen it, so it is answered on the socket, in the words of all errors.
 */
import { STATUS_CODES } from 'node:http'

interface Said {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly hint: string
}

/** By the code of Node's error. */
const SAID: Readonly<Record<string, Said>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    code: 'headers_too_large',
    message: 'the address and the headers are longer than 16 KB together',
    hint: 'send shorter ones, or what is long in the body',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    code: 'request_timeout',
    message: 'the headers came too slowly',
    hint: 'send the request again',
  },
}

const UNREADABLE: Said = {
  status: 400,
  code: 'invalid_http',
  message: 'this is no HTTP/1.1 request',
  hint: 'send plain HTTP: without TLS, which a proxy before this server ends, and without HTTP/2',
}

/** @returns a whole answer, after which the connection ends */
export function answerToUnreadable(error: NodeJS.ErrnoException): string {
  const { status, code, message, hint } = SAID[error.code ?? ''] ?? UNREADABLE
  const body = JSON.stringify({
    detail: message,
    error: { message, type: 'invalid_request_error', param: null, code, hint },
  })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
