/**
 * Requests written byte by byte to a socket: slow, torn or endless bodies that no HTTP client would send.
 */
import { connect, type Socket } from 'node:net'

export interface RawRequest {
  readonly socket: Socket
  /** Sends bytes; resolves when the system has taken them. */
  send(bytes: string | Uint8Array): Promise<void>
  /** All that came back once the server closed or has sent a whole answer. */
  readonly answer: Promise<string>
}

/** Sends the head of a POST with a body of `length` bytes. @param type of it; default JSON */
export function startRawRequest(
  server: { readonly url: string; readonly apiKey: string },
  path: string,
  length: number,
  type = 'application/json',
): RawRequest {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  let text = ''
  const answer = new Promise<string>((resolve) => {
    socket.on('data', (data) => {
      text += data.toString()
      const length = /^content-length: (\d+)\r$/im.exec(text)?.[1]
      const bodyAt = text.indexOf('\r\n\r\n') + 4
      if (length !== undefined && bodyAt > 3 && Buffer.byteLength(text.slice(bodyAt)) >= Number(length)) resolve(text)
    })
    socket.once('close', () => resolve(text))
    socket.once('error', () => resolve(text))
  })
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.apiKey}\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n\r\n`,
  )
  return {
    socket,
    answer,
    send: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
  }
}
