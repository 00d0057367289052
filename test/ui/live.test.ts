/**
 * The page while things happen: what is read stays where it is, the server is asked little, however slow or fast it is, and
 * every window of a browser is told.
 */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

/** What a window may ask in a second while a loop runs, of all its blocks together. */
const MOST_A_SECOND = 2
const WINDOWS = 8

let service: TestService
let browser: Browser
let token: string

async function startJob(model: string, steps: number, delayMs: number): Promise<string> {
  const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: {
      model_id: model,
      trajectory_groups: [sampleGroup([0.25, Math.random()])],
      experimental_config: { stand_in: { steps, delay_ms: delayMs } },
    },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

async function train(model: string, jobs: number): Promise<void> {
  for (let i = 0; i < jobs; i += 1)
    expect((await service.waitForJob(await startJob(model, 4, 50))).status).toBe('completed')
}

/** Requests of a window to the API, and those that it gave up. */
function countRequests(page: Page): { asked: string[]; givenUp: string[] } {
  const counts = { asked: [] as string[], givenUp: [] as string[] }
  const isOurs = (url: string) => new URL(url).pathname.startsWith('/v1/')
  page.on('request', (request) => {
    if (isOurs(request.url())) counts.asked.push(request.url())
  })
  page.on('requestfailed', (request) => {
    if (isOurs(request.url())) counts.givenUp.push(request.url())
  })
  return counts
}

describe.skipIf(CHROMIUM === null)('the page while a loop runs', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token })

  test('a model that is read stays where it is: no chart is made anew, nothing scrolls, and few requests are made', async () => {
    const model = await service.createModel('loop')
    await train(model, 6)
    const { context, page, problems } = await open()
    await page.goto('/ui/models/tests/loop')
    await page.locator('canvas').first().waitFor()
    await page.locator('tbody tr').nth(5).waitFor()
    // what stands above the charts has come
    await page.locator('.verdict .word').waitFor()
    await page.locator('.findings').waitFor()
    // a part of the axis is chosen: it is in the address, for all charts, and stays
    const box = await page.locator('.u-over').first().boundingBox()
    if (box === null) throw new Error('no chart')
    await page.mouse.move(box.x + box.width * 0.2, box.y + 40)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/zoom=[\d.]+$/)
    const zoomed = page.url()
    await page.setViewportSize({ width: 1280, height: 200 })
    await page.evaluate('document.querySelectorAll("canvas").forEach((canvas) => { canvas.isFirst = true })')
    const row = page.locator('tbody tr', { has: page.locator('th', { hasText: /^1$/ }) })
    await row.scrollIntoViewIfNeeded()
    const place = async () => (await row.boundingBox())?.y
    const before = await place()
    const counts = countRequests(page)
    const startedAt = performance.now()
    await page.evaluate(`window.gone = 0
      new MutationObserver((changes) => {
        for (const { removedNodes } of changes)
          for (const node of removedNodes) if (node.querySelector?.('canvas, tbody')) window.gone += 1
      }).observe(document.body, { childList: true, subtree: true })`)
    await train(model, 12)
    await page.locator('tbody th', { hasText: /^18$/ }).waitFor()
    const seconds = (performance.now() - startedAt) / 1000
    expect(counts.asked.length / seconds, counts.asked.join('\n')).toBeLessThanOrEqual(MOST_A_SECOND)
    expect(counts.givenUp).toEqual([])
    expect(await page.evaluate('window.gone')).toBe(0)
    expect(await page.evaluate('[...document.querySelectorAll("canvas")].every((canvas) => canvas.isFirst)')).toBe(true)
    expect(page.url()).toBe(zoomed)
    // twelve rows came above it
    expect(Math.abs(((await place()) ?? 0) - (before ?? 0))).toBeLessThan(2)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a slow network gives up no request, and the list follows', async () => {
    const model = await service.createModel('far-away')
    const { context, page } = await open()
    await page.route('**/v1/**', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 1500))
      await route.continue().catch(() => undefined)
    })
    const counts = countRequests(page)
    await page.goto('/ui/')
    await page.locator('.live', { hasText: /^live$/ }).waitFor()
    const row = page.locator('tbody tr', { hasText: 'far-away' })
    await row.waitFor()
    await train(model, 4)
    await row.locator('td[data-label=Step]', { hasText: /^4$/ }).waitFor()
    expect(counts.givenUp).toEqual([])
    await context.close()
  })

  test('eight windows that are all seen are all live, and the first opens more', async () => {
    const model = await service.createModel('watched')
    // far longer than eight windows take to open on a busy machine
    const job = await startJob(model, 6000, 50)
    const { context, page: first } = await open()
    const windows = [first, ...(await Promise.all(Array.from({ length: WINDOWS - 1 }, () => context.newPage())))]
    const paths = [`/ui/jobs/${job}`, '/ui/', '/ui/models/tests/watched', '/ui/jobs']
    await Promise.all(windows.map((window, i) => window.goto(paths[i % paths.length] ?? '/ui/')))
    const steps = async (window: Page) => {
      const text = await window.locator('progress').first().getAttribute('aria-label')
      return Number(/step (\d+)/.exec(text ?? '')?.[1] ?? Number.NaN)
    }
    const watching = windows.filter((_, i) => i % paths.length < 3)
    for (const window of watching) await window.locator('progress[value]').first().waitFor()
    const before = await Promise.all(watching.map(steps))
    await until(async () => {
      const now = await Promise.all(watching.map(steps))
      return now.every((step, i) => step > (before[i] ?? 0) + 5) || null
    }, 'every window goes on')
    await first.goto('/ui/settings')
    await first.getByText('Create a key').first().waitFor()
    await service.fetch(`/v1/preview/training-jobs/${job}/cancel`, { method: 'POST' })
    await windows[4]?.locator('.status.cancelled').first().waitFor()
    await context.close()
  })

  test('a script that does not come is said, with a way to load again', async () => {
    const { context, page } = await open()
    await page.goto('/ui/')
    await page.getByRole('link', { name: 'loop', exact: true }).waitFor()
    await page.route('**/ui/assets/**', (route) => route.abort())
    await page.getByRole('link', { name: 'loop', exact: true }).click()
    await page.getByRole('heading', { name: 'did not load' }).waitFor()
    await page.unroute('**/ui/assets/**')
    await page.getByRole('button', { name: 'Load again' }).click()
    await page.locator('canvas').first().waitFor()
    // and where not even the first one comes
    await page.route('**/ui/assets/*.js', (route) => route.abort())
    await page.reload()
    await page.getByRole('link', { name: 'Load again' }).waitFor()
    await page.unroute('**/ui/assets/*.js')
    await page.getByRole('link', { name: 'Load again' }).click()
    await page.locator('canvas').first().waitFor()
    await context.close()
  })
})
