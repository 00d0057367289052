/**
 * `/ui` as a browser gets it: one shell for every address, files by the names of the build's manifest alone, headers that let it run
 * nothing else. What the page does is tested in a browser.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const folder = join(packageRoot(), 'dist/ui')

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const get = (path: string, headers: Record<string, string> = {}) => service.app.request(path, { headers })

async function manifest(): Promise<{ app: string; style: string; files: Record<string, object> }> {
  return JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')) as never
}

describe('GET /', () => {
  it.each([
    ['a browser', BROWSER, 302],
    ['a program that says nothing', '*/*', 200],
    ['a program that takes both alike', 'application/json, text/html', 200],
    ['one that takes HTML in need', 'application/json, text/html;q=0.5', 200],
    ['one that refuses it', 'text/html;q=0', 200],
    ['nonsense', ';;q=,text/html;q=x', 200],
  ])('leads %s where it wants to go', async (_, accept, status) => {
    const response = await get('/', { accept })
    expect(response.status).toBe(status)
    expect(response.headers.get('vary')).toContain('Accept')
    if (status === 302) expect(new URL(response.headers.get('location') ?? '').pathname).toBe('/ui/')
    else expect(((await response.json()) as { ui: string }).ui).toMatch(/\/ui\/$/)
  })
})

describe('the shell', () => {
  it('is the same for every address of the page', async () => {
    const first = await (await get('/ui/')).text()
    for (const path of ['/ui', '/ui/jobs', '/ui/models/a/b%2Fc', '/ui/%3Cscript%3E', '/ui/../ui/x']) {
      const response = await get(path)
      expect(response.status, path).toBe(200)
      expect(response.headers.get('cache-control'), path).toBe('no-cache')
      expect(await response.text(), path).toBe(first)
    }
    expect(first.match(/<h1/g)).toHaveLength(1)
    expect(first).not.toMatch(/<script(?! type="module" src="\/ui\/assets\/)|style="|\son\w+="/)
  })

  it('may run its own files and nothing else', async () => {
    const { headers } = await get('/ui/')
    const policy = headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("require-trusted-types-for 'script'")
    expect(policy).not.toMatch(/unsafe|\*|https?:/)
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cross-origin-opener-policy')).toBe('same-origin')
  })
})

describe('its files', () => {
  it('come as they were built, also compressed, and are kept for ever under their hash', async () => {
    const { app, style, files } = await manifest()
    for (const name of [app, style]) {
      const plain = await readFile(join(folder, name))
      for (const [accepted, encoding, read] of [
        ['', null, (bytes: Buffer) => bytes],
        ['gzip, deflate', 'gzip', gunzipSync],
        ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
        ['br;q=0, gzip', 'gzip', gunzipSync],
      ] as const) {
        const response = await get(`/ui/assets/${name}`, accepted === '' ? {} : { 'accept-encoding': accepted })
        expect(response.status).toBe(200)
        expect(response.headers.get('content-encoding')).toBe(encoding)
        expect(response.headers.get('cache-control')).toContain('immutable')
        expect(read(Buffer.from(await response.arrayBuffer())).equals(plain), `${name} as ${encoding}`).toBe(true)
      }
    }
    expect(Object.keys(files)).toContain('LICENSES.txt')
    const licenses = await get('/ui/assets/LICENSES.txt')
    expect(licenses.headers.get('cache-control')).toBe('no-cache')
    expect(await licenses.text()).toContain('preact')
  })

  it.each(['manifest.json', '../../package.json', '..%2f..%2fpackage.json', '__proto__', 'app.js', ''])(
    'are none but those of the manifest: %s',
    async (name) => {
      const response = await get(`/ui/assets/${name}`)
      expect(response.status === 404 || (response.headers.get('content-type') ?? '').startsWith('text/html')).toBe(true)
    },
  )
})

it('is left out by --no-ui', async () => {
  const plain = await createTestService({ ui: false })
  try {
    for (const path of ['/ui', '/ui/jobs', '/ui/assets/x.js']) {
      expect((await plain.app.request(path)).status, path).toBe(404)
    }
    const root = await plain.app.request('/', { headers: { accept: BROWSER } })
    expect(root.status).toBe(200)
    expect(await root.json()).not.toHaveProperty('ui')
  } finally {
    await plain.dispose()
  }
})
