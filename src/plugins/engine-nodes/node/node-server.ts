/**
 * The HTTP side of an engine node: one token opens it, and it says who it is and generates.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AppError, NotFoundError } from '#base/errors/errors.js'
import type { NodeEngine } from './node-engine.js'
import { sendError } from './onnx-node.js'

export interface NodeServerOptions {
  readonly id: string
  readonly token: string
  readonly host: string
  readonly port: number
  /** Null while the model is being loaded. */
  readonly engine: () => NodeEngine | null
}

export interface NodeServer {
  readonly address: AddressInfo
  /** Requests that are being answered. */
  readonly openRequests: number
  close(): Promise<void>
}

/** @throws {AppError} `cannot_listen` */
export async function startNodeServer({ id, token, host, port, engine }: NodeServerOptions): Promise<NodeServer> {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  const expected = digest(`Bearer ${token}`)
  let open = 0

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!timingSafeEqual(digest(request.headers.authorization ?? ''), expected)) {
      throw new AppError('authentication', 'invalid_api_key', "the token is not this node's")
    }
    const asked = `${request.method} ${request.url}`
    if (asked === 'GET /v1/node') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id }))
    } else if (asked === 'POST /inference/v1/generate') {
      const ready = engine()
      if (ready === null || !ready.isReady) {
        throw new AppError('unavailable', 'model_loading', 'this engine node has no model loaded')
      }
      await ready.generate(request, response)
    } else throw new NotFoundError('not_found', 'this is an engine node: it answers POST /inference/v1/generate')
  }

  const server = createServer({ noDelay: true }, (request, response) => {
    open += 1
    response.once('close', () => {
      open -= 1
    })
    answer(request, response).catch((error: unknown) => {
      const unexpected = (): AppError =>
        new AppError('internal', 'internal_error', 'the engine node failed', { cause: error })
      sendError(response, error instanceof AppError ? error : unexpected())
      // a body that nobody reads holds the connection up
      request.resume()
    })
  })
  // the server keeps connections open between requests, and closes them itself
  server.keepAliveTimeout = 120_000
  server.requestTimeout = 0
  await listen(server, host, port)
  return {
    address: server.address() as AddressInfo,
    get openRequests() {
      return open
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new AppError('unavailable', 'cannot_listen', `cannot listen on ${host}:${port}: ${cause.message}`, {
          hint: 'give --listen another address, or port 0 for any free one',
          cause,
        }),
      ),
    )
    server.listen(port, host, resolve)
  })
}
