/**
 * A model hub on loopback that speaks the hub's protocol: descriptions with digests, redirects to where the bytes are, ETag, Range.
 * Faults can be ordered: connections that break, wrong bytes, gates, redirects elsewhere.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

export interface FakeHub {
  readonly url: string
  /** Requests so far, in order. */
  readonly requests: readonly { readonly path: string; readonly range: string | null; readonly token: string | null }[]
  /** Files of `organisation/name`; those above 1000 bytes are described with their SHA-256, as large files are. */
  readonly repositories: Map<string, Map<string, Buffer>>
  /** What goes wrong. */
  readonly faults: {
    /** Connections break after this many bytes of a body. */
    cutAfterBytes: number | null
    /** How often that happens. */
    cutsLeft: number
    /** Whole files, whatever range is asked for. */
    ignoresRanges: boolean
    /** Names of files whose bytes are other than described. */
    readonly damaged: Set<string>
    /** Answers of these paths wait until this resolves. */
    hold: Promise<void> | null
    /** Where files are redirected to instead of this server. */
    redirectTo: string | null
    /** Only this token gets anything. */
    requiredToken: string | null
    /** What descriptions are instead. */
    listing: ((answer: ServerResponse) => void) | null
    /** What is sent of files with more than 1000 bytes instead, from `start` on. */
    body: ((answer: ServerResponse, bytes: Buffer, start: number) => void) | null
  }
  close(): void
}

/** A repository's files from a folder. */
export function filesOf(directory: string): Map<string, Buffer> {
  return new Map(readdirSync(directory).map((name) => [name, readFileSync(join(directory, name))]))
}

export async function startFakeHub(): Promise<FakeHub> {
  const requests: { path: string; range: string | null; token: string | null }[] = []
  const repositories: FakeHub['repositories'] = new Map()
  const faults: FakeHub['faults'] = {
    cutAfterBytes: null,
    cutsLeft: Number.POSITIVE_INFINITY,
    ignoresRanges: false,
    damaged: new Set(),
    hold: null,
    redirectTo: null,
    requiredToken: null,
    listing: null,
    body: null,
  }
  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = decodeURIComponent(new URL(request.url ?? '/', url).pathname)
    const token = request.headers.authorization?.replace('Bearer ', '') ?? null
    requests.push({ path, range: request.headers.range ?? null, token })
    const isBytes = path.startsWith('/cdn/')
    if (!isBytes && faults.requiredToken !== null && token !== faults.requiredToken) {
      response.writeHead(401, { 'x-error-code': 'GatedRepo' }).end()
      return
    }
    const [, listed] = /^\/api\/models\/([^/]+\/[^/]+)(?:\/revision\/main)?$/.exec(path) ?? []
    if (listed !== undefined) return (faults.listing ?? ((other) => describe(listed, other)))(response)
    const [, repository = '', name = ''] =
      /^\/(?:cdn\/)?([^/]+\/[^/]+)\/(?:resolve\/[0-9a-f]{40}\/)?(.+)$/.exec(path) ?? []
    const bytes = repositories.get(repository)?.get(name)
    if (bytes === undefined) {
      response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end()
      return
    }
    if (isBytes) return await send(request, response, name, bytes)
    const etag = `"${sha256(bytes)}"`
    const location = faults.redirectTo ?? `/cdn/${repository}/${name}`
    response.writeHead(302, { location, 'x-linked-etag': etag, 'x-linked-size': bytes.length }).end()
  }

  function describe(repository: string, response: ServerResponse): void {
    const files = repositories.get(repository)
    if (files === undefined) {
      response.writeHead(404, { 'x-error-code': 'RepoNotFound' }).end(JSON.stringify({ error: 'Repository not found' }))
      return
    }
    const siblings = [...files].map(([rfilename, bytes]) => ({
      rfilename,
      size: bytes.length,
      blobId: createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex'),
      ...(bytes.length > 1000 ? { lfs: { sha256: sha256(bytes), size: bytes.length, pointerSize: 130 } } : {}),
    }))
    const sha = createHash('sha1').update(JSON.stringify(siblings)).digest('hex')
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ id: repository, sha, siblings }))
  }

  async function send(request: IncomingMessage, response: ServerResponse, name: string, bytes: Buffer): Promise<void> {
    await faults.hold
    const asked = /^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1]
    const start = asked === undefined || faults.ignoresRanges ? 0 : Number(asked)
    if (faults.body !== null && bytes.length > 1000) return faults.body(response, bytes, start)
    const body = faults.damaged.has(name) ? Buffer.alloc(bytes.length) : bytes
    const range = { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` }
    const headers = { etag: `"${sha256(bytes)}"`, 'content-length': bytes.length - start, 'accept-ranges': 'bytes' }
    response.writeHead(start > 0 ? 206 : 200, { ...headers, ...(start > 0 ? range : {}) })
    const rest = body.subarray(start)
    const cut = faults.cutAfterBytes
    if (cut === null || rest.length <= cut || faults.cutsLeft === 0) return void response.end(rest)
    faults.cutsLeft -= 1
    response.write(rest.subarray(0, cut), () => setTimeout(() => response.destroy(), 20))
  }

  return {
    url,
    requests,
    repositories,
    faults,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
