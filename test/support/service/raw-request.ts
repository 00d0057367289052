/**
 * Requests written byte by byte to a socket: slow, torn or endless bodies that no HTTP client would send.
 */
import { connect, type Socket } from 'node:net'

export interface RawRequest {
  readonly socket: Socket
  /** Sends bytes; resolves when the system has taken them. */
  send(bytes: string | Uint8Array): Promise<void>
  /** All that came back once the server closed or has sent an answer. */
  readonly answer: Promise<string>
}

/** Sends the head of a POST with a JSON body of `length` bytes. */
export function startRawRequest(
  server: { readonly url: string; readonly apiKey: string },
  path: string,
  length: number,
): RawRequest {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  let text = ''
  const answer = new Promise<string>((resolve) => {
    socket.on('data', (data) => {
      text += data.toString()
      if (text.includes('\r\n\r\n')) setTimeout(() => resolve(text), 50)
    })
    socket.once('close', () => resolve(text))
    socket.once('error', () => resolve(text))
  })
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.apiKey}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`,
  )
  return {
    socket,
    answer,
    send: (bytes) => new Promise((resolve) => socket.write(bytes, () => resolve())),
  }
}
