/**
 * `/docs` and `/openapi.json` as a browser gets them: open, whole, and with nothing from elsewhere.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const get = (path: string) => service.app.request(path)

/** Every page by its address, found by following links from the first. */
async function crawl(): Promise<ReadonlyMap<string, string>> {
  const pages = new Map<string, string>()
  const waiting = ['/docs']
  for (const path of waiting) {
    const response = await get(path)
    expect(response.status, path).toBe(200)
    expect(response.headers.get('content-type'), path).toBe('text/html; charset=utf-8')
    const html = await response.text()
    pages.set(path, html)
    for (const [, link = ''] of html.matchAll(/href="(\/docs\/[\w-]+)/g))
      if (!waiting.includes(link) && !html.includes(`${link}.css"`)) waiting.push(link)
  }
  return pages
}

it('shows every page with working links and asks nobody else for anything', async () => {
  const pages = await crawl()
  expect(pages.size).toBeGreaterThan(8)
  for (const [path, html] of pages) {
    expect(html, path).toMatch(/^<!doctype html>\n<html lang="en">/)
    expect(html.match(/<h1[ >]/g), path).toHaveLength(1)
    const ids = [...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
    expect(ids, path).toEqual([...new Set(ids)])
    expect(html, path).not.toMatch(/<script|<iframe|style="|@import|\son\w+="/)
    for (const [, source = ''] of html.matchAll(/src="([^"]*)"/g)) {
      const picture = await get(source)
      const isDrawing = source.endsWith('.svg')
      expect([picture.status, picture.headers.get('content-type')], `${path}: ${source}`).toEqual([
        200,
        isDrawing ? 'image/svg+xml' : 'image/png',
      ])
      expect(source).toMatch(/^\/docs\/pictures\/[\w-]+[.](svg|png)$/)
      const bytes = Buffer.from(await picture.arrayBuffer())
      if (isDrawing) expect(bytes.toString()).not.toMatch(/<script|<foreignObject|href=|url\(|style/)
      else expect(bytes.subarray(1, 4).toString()).toBe('PNG')
      expect(bytes.length, source).toBeLessThan(100_000)
    }
    for (const [, link = ''] of html.matchAll(/<link[^>]*href="([^"]+)"/g)) expect(link).toBe('/docs/style.css')
    for (const [, link = ''] of html.matchAll(/<a [^>]*href="([^"]+)"/g)) {
      const [target = '', anchor] = link.split('#')
      if (target.startsWith('http') || target === '/openapi.json') continue
      const page = pages.get(target === '' ? path : target)
      expect(page, `${path}: ${link}`).toBeDefined()
      if (anchor !== undefined && anchor !== 'text') expect(page, `${path}: ${link}`).toContain(`id="${anchor}"`)
    }
  }
})

it('forbids browsers everything but its own style sheet', async () => {
  const response = await get('/docs/api')
  const policy = response.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toMatch(/unsafe|\*|https?:/)
  expect((await get('/docs/style.css')).headers.get('content-type')).toBe('text/css; charset=utf-8')
})

it.each(['/docs/nope', '/docs/..%2f..%2fpackage', '/docs/__proto__'])('%s is not found', async (path) => {
  expect((await get(path)).status).toBe(404)
})

it('describes itself to programs, without a key', async () => {
  const response = await get('/openapi.json')
  expect(response.status).toBe(200)
  const document = (await response.json()) as { openapi: string; paths: Record<string, object> }
  expect(document.openapi).toBe('3.1.0')
  expect(Object.keys(document.paths)).toContain('/v1/chat/completions')
})
